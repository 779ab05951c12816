// parley: written by `parley setup opencode`, which also updates and removes it.
//
// Tells the model in OpenCode that messages wait, and wakes an idle session when one arrives. What is said, and when, is
// decided by `parley hook`: this file only passes on what happens.
import { spawn } from "node:child_process"

const PARLEY = "__PARLEY__"
const HOOK_MILLISECONDS = 5000
const WAKE_EXIT = 2
const ATTENDED = !process.argv.slice(1).includes("run")

// The result of OpenCode's own tools is a text, that of an MCP server a list of parts.
const canAdd = (output) => typeof output?.output === "string" || Array.isArray(output?.content)
const add = (output, text) => {
  if (typeof output.output === "string") output.output += `\n\n${text}`
  else output.content.push({ type: "text", text })
}

export const ParleyPlugin = async ({ client, directory }) => {
  // Session -> its turn, whether a tool was used in it, whether it goes on because of us, whether it was interrupted, and
  // the process that waits for messages.
  const sessions = new Map()
  const children = new Set()
  process.once("exit", () => sessions.forEach((session) => session.waiter?.kill()))

  const stateOf = (id) => {
    if (!sessions.has(id)) sessions.set(id, { turn: 0, used: false, continued: false, aborted: false, waiter: null })
    return sessions.get(id)
  }

  // Runs a command with an event on its standard input. Whatever goes wrong with it is no trouble of OpenCode.
  const run = (words, id, name, milliseconds) => {
    const state = stateOf(id)
    const event = {
      hook_event_name: name,
      session_id: id,
      turn_id: String(state.turn),
      stop_hook_active: state.continued,
      attended: ATTENDED,
      cwd: directory,
    }
    const env = { ...process.env, OPENCODE: "1", OPENCODE_PID: String(process.pid) }
    const child = spawn(PARLEY, [...words, "--for", "opencode"], { cwd: directory, env, timeout: milliseconds })
    const ended = new Promise((resolve) => {
      const output = { code: -1, out: "", err: "" }
      child.on("error", () => resolve(output))
      child.on("close", (code) => resolve({ ...output, code }))
      child.stdout.on("data", (data) => (output.out += data))
      child.stderr.on("data", (data) => (output.err += data))
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(event))
    return { child, ended }
  }

  // What a model is to be told at an event, or "".
  const notice = async (id, name) => {
    const { out } = await run(["hook"], id, name, HOOK_MILLISECONDS).ended
    try {
      const document = JSON.parse(out)
      return document.reason ?? document.hookSpecificOutput?.additionalContext ?? ""
    } catch {
      return ""
    }
  }

  const prompt = async (id, text) => {
    await client.session.promptAsync({ path: { id }, body: { parts: [{ type: "text", text }] } })
  }

  const wait = (id) => {
    const state = stateOf(id)
    if (state.waiter) return
    const { child, ended } = run(["hook", "wait"], id, "Stop", 0)
    state.waiter = child
    child.unref()
    ended.then(async ({ code, err }) => {
      if (state.waiter === child) state.waiter = null
      if (code === WAKE_EXIT && err.trim() && sessions.get(id) === state) await prompt(id, err.trim())
    }).catch(() => {})
  }

  const stopWaiting = (state) => {
    state.waiter?.kill()
    state.waiter = null
  }

  const idle = async (id) => {
    const state = stateOf(id)
    const text = state.aborted ? "" : await notice(id, "Stop")
    state.aborted = false
    state.continued = text !== ""
    if (text) await prompt(id, text)
    else wait(id)
  }

  return {
    event: async ({ event }) => {
      const info = event.properties?.info
      const id = event.properties?.sessionID ?? info?.id
      if (info?.parentID) children.add(info.id)
      if (typeof id !== "string" || children.has(id)) return
      if (event.type === "session.idle") await idle(id).catch(() => {})
      if (event.type === "session.error" && event.properties.error?.name === "MessageAbortedError") {
        stateOf(id).aborted = true
      }
      if (event.type === "session.deleted" && sessions.has(id)) {
        stopWaiting(stateOf(id))
        await run(["hook"], id, "SessionEnd", HOOK_MILLISECONDS).ended
        sessions.delete(id)
      }
    },
    "chat.message": async ({ sessionID }) => {
      if (children.has(sessionID)) return
      const state = stateOf(sessionID)
      stopWaiting(state)
      if (state.continued) return
      state.turn += 1
      state.used = false
    },
    "tool.execute.after": async ({ sessionID }, output) => {
      if (children.has(sessionID) || !canAdd(output)) return
      const state = stateOf(sessionID)
      const text = await notice(sessionID, state.used ? "PostToolUse" : "UserPromptSubmit")
      state.used = true
      if (text) add(output, text)
    },
  }
}
