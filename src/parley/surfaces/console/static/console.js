// @ts-check
// Keys, theme, ticking times, and buttons that wake when the end of a message has been on the screen. Pages work without.

/** @template {Element} T @param {string} selector @param {new () => T} kind @returns {T | null} */
const find = (selector, kind) => { const found = document.querySelector(selector); return found instanceof kind ? found : null; };

// ---------------------------------------------------------------- signing in by a link
// Its secret is in the fragment, which no server and no log sees; it is taken out of the address at once.
const once = /^#once=([A-Za-z0-9_-]{1,200})$/.exec(location.hash);
const byLink = find("#by-link", HTMLFormElement);
if (once && byLink) {
  history.replaceState(null, "", location.pathname + location.search);
  const field = find("#once", HTMLInputElement);
  if (field) field.value = once[1];
  byLink.submit();
}

// ---------------------------------------------------------------- theme
const THEMES = ["", "light", "dark"];
/** @param {string} theme */
const setTheme = (theme) => { if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme; };
const storedTheme = () => { const theme = localStorage.getItem("parley-theme") ?? ""; return THEMES.includes(theme) ? theme : ""; };
const nextTheme = () => {
  const theme = THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length];
  localStorage.setItem("parley-theme", theme);
  setTheme(theme);
};
setTheme(storedTheme());
const themeButton = find("#theme", HTMLButtonElement);
if (themeButton) { themeButton.hidden = false; themeButton.addEventListener("click", nextTheme); }

// ---------------------------------------------------------------- times
const UNITS = /** @type {const} */ ([["d", 86400], ["h", 3600], ["m", 60]]);
/** @param {number} seconds */
const duration = (seconds) => {
  for (const [unit, size] of UNITS) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.floor(seconds)} s`;
};
const tick = () => {
  for (const time of document.querySelectorAll("time")) {
    const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
    const words = seconds > 0 ? `${duration(seconds)} left` : `${duration(-seconds)} ago`;
    if (time.textContent !== words) time.textContent = words;
    // Paper has the exact time in UTC alone.
    if (!time.dataset.utc) {
      time.dataset.utc = time.title;
      time.title = `${new Date(time.dateTime).toLocaleString()} (${time.title})`;
    }
  }
};
tick();
setInterval(tick, 1000);

// ---------------------------------------------------------------- paper
// What is folded is printed, too: what somebody files is complete.
/** @type {HTMLDetailsElement[]} */
let unfolded = [];
addEventListener("beforeprint", () => {
  const at = find("#printed-at", HTMLElement);
  if (at) at.textContent = `${new Date().toISOString().slice(0, 19).replace("T", " ")} UTC`;
  unfolded = /** @type {HTMLDetailsElement[]} */ ([...document.querySelectorAll("main details:not([open])")]);
  for (const part of unfolded) part.open = true;
});
addEventListener("afterprint", () => { for (const part of unfolded) part.open = false; });

// ---------------------------------------------------------------- menu
// On a phone the menu is a bar that scrolls: the page that is open is in sight.
find("nav [aria-current]", HTMLElement)?.scrollIntoView({ block: "nearest", inline: "center" });

// ---------------------------------------------------------------- wide tables
for (const hint of document.querySelectorAll(".sideways")) {
  const box = hint.nextElementSibling;
  if (box && hint instanceof HTMLElement) new ResizeObserver(() => { hint.hidden = box.scrollWidth <= box.clientWidth; }).observe(box);
}

// ---------------------------------------------------------------- deciding
// Approve sleeps until the end of the message has been on the screen: nobody approves the beginning only.
const message = document.querySelector(".message");
const approve = find("#decide button[value=approve]", HTMLButtonElement);
if (message && approve) {
  approve.disabled = true;
  const end = document.createElement("div");
  end.style.height = "1px";
  message.append(end);
  const bar = find("#decide", HTMLElement);
  const why = find("#asleep", HTMLElement);
  /** @param {string} words */
  const explain = (words) => { approve.title = words; if (why) { why.textContent = words; why.classList.add("used"); } };
  const wake = () => {
    approve.disabled = false;
    document.documentElement.dataset.read = "yes";
    if (why?.textContent) explain("");
  };
  const watchEnd = () => {
    // What is below the bar with the buttons is not on the screen.
    const covered = bar && getComputedStyle(bar).position === "sticky" ? bar.offsetHeight + parseInt(getComputedStyle(bar).bottom, 10) : 0;
    const watch = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) { watch.disconnect(); setTimeout(wake, 400); return; }
      if (!why || why.textContent) return;
      // A short message wakes it before anybody could read why it sleeps. The line makes the bar higher.
      watch.disconnect();
      explain("Scroll to the end of the message to approve it.");
      watchEnd();
    }, { rootMargin: `0px 0px ${-covered}px 0px` });
    watch.observe(end);
  };
  watchEnd();
}
// A second click would only meet a refusal.
find("#decide", HTMLFormElement)?.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
addEventListener("pageshow", () => { const form = find("#decide", HTMLFormElement); if (form) delete form.dataset.sent; });

// ---------------------------------------------------------------- keys
const table = find("#key-table", HTMLDialogElement);
const keysButton = find("#keys", HTMLButtonElement);
if (keysButton) { keysButton.hidden = false; keysButton.addEventListener("click", () => table?.showModal()); }
const off = find("#keys-off", HTMLInputElement);
const areKeysOff = () => localStorage.getItem("parley-keys") === "off";
if (off) {
  off.checked = areKeysOff();
  off.addEventListener("change", () => localStorage.setItem("parley-keys", off.checked ? "off" : "on"));
}
/** @param {number} step */
const move = (step) => {
  const rows = [...document.querySelectorAll(".rows > :has(a)")];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const link = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step]?.querySelector("a");
  link?.focus();
};
let afterG = false;
addEventListener("keydown", (event) => {
  const at = event.target;
  const isTyping = at instanceof HTMLElement && at.matches("input, textarea, select");
  if (isTyping || event.ctrlKey || event.altKey || event.metaKey || event.isComposing || areKeysOff() || table?.open) return;
  const wasAfterG = afterG;
  afterG = event.key === "g";
  if (wasAfterG) {
    const link = [...document.querySelectorAll("nav a[data-key]")].find((one) => one instanceof HTMLElement && one.dataset.key === event.key);
    if (link instanceof HTMLElement) { event.preventDefault(); link.click(); return; }
  }
  /** @type {Record<string, () => void>} */
  const acts = {
    j: () => move(1),
    k: () => move(-1),
    y: () => find("#decide button[value=approve]", HTMLElement)?.focus(),
    n: () => find("#decide button[value=reject]", HTMLElement)?.focus(),
    e: () => { const box = find("#answering", HTMLDetailsElement); if (box) { box.open = true; find("#answer", HTMLElement)?.focus(); } },
    u: () => find(".crumb a", HTMLElement)?.click(),
    "/": () => find(".filters input, .filters select", HTMLElement)?.focus(),
    "[": () => history.back(),
    "]": () => find("a[rel=next]", HTMLElement)?.click(),
    ".": () => pause(),
    t: nextTheme,
    "?": () => table?.showModal(),
  };
  const act = acts[event.key];
  if (act) { event.preventDefault(); act(); }
});

// ---------------------------------------------------------------- live
// Rows come as HTML that the server has rendered and escaped; this is the only place that takes it.
/** @typedef {{id: string, status: string, row: string}} Row */
// @ts-ignore: trusted types are not in every library of types
const policy = self.trustedTypes?.createPolicy("parley", { createHTML: (/** @type {string} */ html) => html }) ?? { createHTML: (/** @type {string} */ html) => html };
/** @param {string} html */
const parsed = (html) => {
  const holder = document.createElement("template");
  holder.innerHTML = policy.createHTML(html);
  return holder.content;
};
/** @param {string} html @returns {HTMLElement | null} */
const rowOf = (html) => {
  const row = parsed(html).firstElementChild;
  return row instanceof HTMLElement ? row : null;
};
const queue = find("#queue", HTMLElement);
const more = find("#more", HTMLButtonElement);
const live = find("#live", HTMLElement);
const HIDDEN_MILLISECONDS = 20000;
const REFUSED_MILLISECONDS = 1000;
/** @type {Map<string, string>} rows that arrived while the reader is in the list */
const arrived = new Map();

/** @param {"connecting" | "live" | "lost" | "paused"} state */
const setLive = (state) => {
  document.documentElement.dataset.live = state;
  if (!live) return;
  const word = { connecting: "Connecting", live: "Live", lost: "Reconnecting", paused: "Paused" }[state];
  live.hidden = false;
  if (live.textContent !== word) live.textContent = word;
};
/** @param {string} id */
const rowWith = (id) => [...(queue?.children ?? [])].find((row) => row instanceof HTMLElement && row.dataset.id === id);
const isReaderInside = () => queue !== null && !queue.hidden && (queue.matches(":hover") || queue.contains(document.activeElement));
/** @param {string} html */
const insert = (html) => {
  const row = rowOf(html);
  if (!row || !queue || rowWith(row.dataset.id ?? "")) return;
  const expires = Date.parse(row.dataset.expires ?? "");
  const later = [...queue.children].find((other) => other instanceof HTMLElement && Date.parse(other.dataset.expires ?? "") > expires);
  queue.insertBefore(row, later ?? null);
  row.classList.add("arrived");
  queue.hidden = false;
  find("#nothing", HTMLElement)?.remove();
};
const showArrived = () => {
  for (const html of arrived.values()) insert(html);
  arrived.clear();
  if (more) more.hidden = true;
  tick();
};
/** @param {Row} approval */
const take = (approval) => {
  const isWaiting = approval.status === "pending";
  const card = document.querySelector(".decision");
  if (!isWaiting && card instanceof HTMLElement && card.dataset.id === approval.id) {
    const elsewhere = find("#elsewhere", HTMLElement);
    if (elsewhere) elsewhere.hidden = false;
  }
  if (!queue) return;
  // A row that is decided keeps its place until the page is opened again: nothing moves under the pointer.
  if (!isWaiting) { arrived.delete(approval.id); rowWith(approval.id)?.classList.add("gone"); return; }
  if (rowWith(approval.id)) return;
  arrived.set(approval.id, approval.row);
  if (!isReaderInside()) showArrived();
  else if (more) { more.textContent = `${arrived.size} new: show`; more.hidden = false; }
};
/** @param {number} count */
const setCount = (count) => {
  const link = find("nav a[href='/console/approvals']", HTMLElement);
  if (!link) return;
  let badge = link.querySelector(".count");
  if (!badge && count) { badge = document.createElement("span"); badge.className = "count"; link.append(badge); }
  if (!badge) return;
  if (count) { badge.textContent = String(Math.min(count, 999)); badge.setAttribute("aria-label", `${count} waiting`); } else badge.remove();
};
more?.addEventListener("click", showArrived);

// ---------------------------------------------------------------- fresh parts
// When something changes, the page is loaded again and its parts are put in place of the old ones: at most once a second,
// and not while the reader is in one of them.
const content = find("#content", HTMLElement);
const freshButton = find("#fresh", HTMLButtonElement);
const REFRESH_MILLISECONDS = 1000;
/** @type {Map<string, Element>} parts that wait until the reader has left */
const waitingParts = new Map();
/** @param {Element} part */
const isInUse = (part) => (part.matches(":hover") && part.querySelector("a, button") !== null) || part.contains(document.activeElement)
  || [...part.querySelectorAll("input, textarea")].some((field) => (field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement) && field.value !== field.defaultValue);
/** @param {Element} part */
const replacePart = (part) => {
  const old = document.getElementById(part.id);
  // Parts that say the same keep their place, their selection and their folds.
  if (old && old.innerHTML !== part.innerHTML) old.replaceWith(part);
};
const showParts = () => {
  for (const part of waitingParts.values()) replacePart(part);
  waitingParts.clear();
  if (freshButton) freshButton.hidden = true;
  tick();
};
/** @param {string} html */
const takeParts = (html) => {
  for (const part of parsed(html).querySelectorAll("[data-fresh]")) {
    const old = document.getElementById(part.id);
    waitingParts.delete(part.id);
    if (old && isInUse(old)) { if (old.textContent !== part.textContent) waitingParts.set(part.id, part); } else replacePart(part);
  }
  if (freshButton) freshButton.hidden = waitingParts.size === 0;
  tick();
};
let isRefreshing = false;
let isChanged = false;
const refresh = async () => {
  isChanged = true;
  if (isRefreshing || !document.querySelector("[data-fresh]")) return;
  isRefreshing = true;
  while (isChanged) {
    isChanged = false;
    const answer = await fetch(location.href, { redirect: "manual", headers: { "x-fresh": "1" } }).catch(() => null);
    if (answer?.type === "opaqueredirect") location.reload();
    if (answer?.ok) takeParts(await answer.text());
    await new Promise((done) => setTimeout(done, REFRESH_MILLISECONDS));
  }
  isRefreshing = false;
};
freshButton?.addEventListener("click", showParts);

// ---------------------------------------------------------------- timeline
// Rows wait for the next frame: one parse, one insertion and one cut for all of them. While the reader is not at the end
// they wait until the reader is, so nothing moves under their eyes. What scrolls grows from its end, without any scrolling.
const ROWS_MAX = 500;
const timeline = find("#timeline[data-last]", HTMLElement);
const scroller = find("#log", HTMLElement);
const behind = find("#behind", HTMLButtonElement);
/** @typedef {{rows: string, count: number, last: number, asks: boolean}} Messages */
/** @type {Messages[]} */
let held = [];
let isAtEnd = true;
let isDue = false;
let skipped = 0;
const countHeld = () => held.reduce((sum, batch) => sum + batch.count, 0);
/** @param {number} count */
const skip = (count) => {
  const gap = find("#skipped", HTMLElement);
  const link = gap?.querySelector("a");
  if (!gap || !link || !timeline) return;
  if (!skipped) link.href = `?${new URLSearchParams({ since: timeline.dataset.last ?? "", seat: content?.dataset.seat ?? "" })}`;
  skipped += count;
  gap.hidden = false;
  gap.firstChild.textContent = `${skipped.toLocaleString("en")} messages went by faster than they can be read: `;
};
const showMessages = () => {
  isDue = false;
  if (!timeline || !held.length) return;
  if (behind) { behind.hidden = isAtEnd; behind.textContent = `↓ ${countHeld()} new`; }
  if (!isAtEnd) return;
  const rows = document.createDocumentFragment();
  for (const batch of held) rows.append(parsed(batch.rows));
  held = [];
  const areFew = rows.childElementCount <= 20;
  for (const row of [...rows.children]) {
    if (!(row instanceof HTMLElement)) continue;
    if (areFew) row.classList.add("arrived");
    const seq = row.dataset.seq ?? "";
    // The same row can stand in two batches of one frame.
    if (Number(seq) <= Number(timeline.dataset.last)) { row.remove(); continue; }
    timeline.dataset.last = seq;
    if (row.dataset.answers) (rows.getElementById(`m-${row.dataset.answers}`) ?? document.getElementById(`m-${row.dataset.answers}`))?.querySelector(".waits")?.remove();
  }
  const over = timeline.childElementCount + rows.childElementCount - ROWS_MAX;
  timeline.append(rows);
  find("#nothing", HTMLElement)?.remove();
  if (over <= 0) return;
  const cut = document.createRange();
  cut.setStart(timeline, 0);
  cut.setEndBefore(timeline.children[over]);
  cut.deleteContents();
  const older = find("#older", HTMLAnchorElement);
  const first = timeline.firstElementChild;
  if (older?.parentElement && first instanceof HTMLElement) {
    older.parentElement.hidden = false;
    older.href = `?${new URLSearchParams({ before: first.dataset.seq ?? "", seat: content?.dataset.seat ?? "" })}`;
  }
};
const plan = () => { if (!isDue) { isDue = true; requestAnimationFrame(showMessages); } };
/** @param {Messages} batch */
const takeMessages = (batch) => {
  // On a page of several channels its fresh parts have what was said.
  if (batch.asks || !timeline) refresh();
  if (!timeline || batch.last <= (held[held.length - 1]?.last ?? Number(timeline.dataset.last))) return;
  held.push(batch);
  for (let count = countHeld(); count - held[0].count >= ROWS_MAX; count = countHeld()) skip(held.shift()?.count ?? 0);
  plan();
};
const end = find("#end", HTMLElement);
if (timeline && scroller && end) {
  new IntersectionObserver((entries) => { isAtEnd = entries[entries.length - 1].isIntersecting; plan(); }, { root: scroller }).observe(end);
  behind?.addEventListener("click", () => { scroller.scrollTop = 0; scroller.focus(); });
}

let lastId = "";
/** @type {EventSource | null} */
let source = null;
const open = () => {
  setLive("connecting");
  source = new EventSource(`/console/live?${new URLSearchParams({ topics: content?.dataset.topics ?? "", after: lastId, seat: content?.dataset.seat ?? "", since: timeline?.dataset.last ?? "" })}`);
  // What came between rendering the page and following it.
  source.onopen = () => { setLive("live"); if (content?.dataset.topics) refresh(); };
  source.addEventListener("messages", (event) => { if (event.lastEventId) lastId = event.lastEventId; takeMessages(JSON.parse(event.data)); });
  source.addEventListener("changed", (event) => { if (event.lastEventId) lastId = event.lastEventId; refresh(); });
  source.onerror = () => {
    setLive("lost");
    // A refusal closes it for good. When the sign-in has ended, the page leads to where one signs in.
    if (source?.readyState === EventSource.CLOSED) setTimeout(reopen, REFUSED_MILLISECONDS);
  };
  source.addEventListener("queue", (event) => {
    /** @type {{count: number, rows: Row[], whole: boolean}} */
    const state = JSON.parse(event.data);
    setCount(state.count);
    for (const approval of state.rows) take(approval);
    const waiting = new Set(state.rows.map((approval) => approval.id));
    if (state.whole) for (const row of queue?.children ?? []) if (row instanceof HTMLElement && !waiting.has(row.dataset.id ?? "")) row.classList.add("gone");
  });
  source.addEventListener("approval", (event) => {
    if (event.lastEventId) lastId = event.lastEventId;
    /** @type {Row & {count: number}} */
    const approval = JSON.parse(event.data);
    setCount(approval.count);
    take(approval);
  });
};
const reopen = async () => {
  const answer = await fetch(location.href, { redirect: "manual" }).catch(() => null);
  if (answer?.type === "opaqueredirect") location.reload();
  else open();
};
const stop = () => { source?.close(); source = null; setLive("paused"); };
let isPaused = false;
const pause = () => {
  if (!live) return;
  isPaused = !isPaused;
  if (isPaused) stop(); else open();
};
if (live) {
  open();
  let timer = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (isPaused) return;
    if (document.hidden) timer = setTimeout(stop, HIDDEN_MILLISECONDS);
    else if (!source) open();
  });
  const every = Number(content?.dataset.every ?? 0);
  if (every) setInterval(() => { if (source) refresh(); }, every * 1000);
}
