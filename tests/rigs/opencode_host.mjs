// Loads the plugin as OpenCode does, and calls its hooks as a test says, one JSON document a line. What the plugin asks of
// OpenCode goes over HTTP to a server here, and is written to standard output.
import { createServer } from "node:http"
import { createInterface } from "node:readline"

const write = (document) => process.stdout.write(`${JSON.stringify(document)}\n`)

const server = createServer((request, response) => {
  let body = ""
  request.on("data", (data) => (body += data))
  request.on("end", () => {
    write({ request: `${request.method} ${request.url}`, body: JSON.parse(body) })
    response.writeHead(204).end()
  })
})
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve))
const address = `http://127.0.0.1:${server.address().port}`
const client = {
  session: {
    promptAsync: ({ path, body }) =>
      fetch(`${address}/session/${path.id}/prompt_async`, { method: "POST", body: JSON.stringify(body) }),
  },
}

const plugin = await import(process.argv[2])
const hooks = await plugin.ParleyPlugin({ client, directory: process.cwd() })
write({ ready: Object.keys(hooks).sort() })
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...values] = JSON.parse(line)
  await hooks[name](...values)
  write({ called: name, values })
}
process.exit(0)
