// One page of a study: visible time, a draft that survives a reload, safe sending, keys for choices.
"use strict";
(() => {
  addEventListener("pageshow", (event) => event.persisted && location.reload()); // a page from the back/forward cache may be outdated

  for (const slider of document.querySelectorAll(".slider")) {
    slider.hidden = false;
    slider.addEventListener("input", (event) =>
      document.documentElement.style.setProperty("--veil", event.target.value / 100));
  }

  // Long explanations scroll within their cards, all together, so that the same words stay side by side.
  const explanations = [...document.querySelectorAll(".cards .map")].filter((explanation) => explanation.scrollHeight > explanation.clientHeight + 2);
  for (const explanation of explanations) {
    explanation.tabIndex = 0;
    explanation.setAttribute("role", "group");
    explanation.setAttribute("aria-label", `Explanation ${explanation.closest(".slot").querySelector(".letter").textContent}`);
    explanation.addEventListener("scroll", () => explanations.forEach((other) => {
      if (Math.abs(other.scrollTop - explanation.scrollTop) > 1) other.scrollTop = explanation.scrollTop;
    }), { passive: true });
  }

  const form = document.querySelector("form[data-task]");
  if (!form) return;
  const button = form.querySelector("[type=submit]");
  const retry = form.querySelector("[data-retry]");
  const state = form.querySelector(".state");
  const body = form.querySelector(".answer");
  const { seconds, touched } = form.elements;

  // The draft of this page and person (a form token belongs to one person) in this tab.
  const key = `didact ${form.elements.csrf.value} ${location.pathname}`;
  const withStorage = (action) => { try { return action(sessionStorage); } catch { return null; } };
  const isAnswer = (name) => !["csrf", "seconds", "touched"].includes(name);
  const draft = JSON.parse(withStorage((store) => store.getItem(key)) || "null");
  let isSaved = false;
  let isAsked = false;

  if (draft) {
    for (const [name, value] of draft.values) {
      const field = form.elements[name];
      if (field) field.value = value;
    }
    touched.value = draft.touched;
  }
  const saveDraft = () => isSaved || withStorage((store) => store.setItem(key, JSON.stringify({
    values: [...new FormData(form)].filter(([name]) => isAnswer(name)), touched: touched.value, spent: spent(),
  })));

  // Seconds for which the page was visible.
  let before = draft?.spent || 0;
  let since = document.hidden ? null : performance.now();
  const spent = () => before + (since === null ? 0 : (performance.now() - since) / 1000);
  document.addEventListener("visibilitychange", () => {
    before = spent();
    since = document.hidden ? null : performance.now();
    if (document.hidden && touched.value) saveDraft();
  });
  addEventListener("pagehide", saveDraft);

  form.addEventListener("change", (event) => {
    if (!isAnswer(event.target.name || "") || event.target.matches("[data-keys], [type=range]")) return;
    touched.value = "1";
    say("");
    saveDraft();
  });
  addEventListener("beforeunload", (event) => {
    if (!isSaved && touched.value) event.preventDefault();
  });

  const say = (text) => { state.textContent = text; };

  // Sending. The form is locked until the server has answered, because the answer may be stored already.
  let tries = 0;
  let timer = null;
  let isSending = false;
  const setLocked = (isLocked) => { button.disabled = isLocked; body.inert = isLocked; if (!isLocked) retry.hidden = true; };

  const retryLater = (why) => {
    const wait = Math.min(30, 2 ** tries++);
    say(`Not saved yet: ${why}. Trying again in ${wait} ${wait === 1 ? "second" : "seconds"} …`);
    retry.hidden = false;
    if (document.activeElement === document.body) retry.focus();
    timer = setTimeout(send, 1000 * wait);
  };
  const refused = (text) => {
    setLocked(false);
    say(`Not saved: ${text}`);
    button.focus();
  };
  const proceed = (next) => {
    isSaved = true;
    withStorage((store) => store.removeItem(key));
    say("");
    const url = new URL(next || location.href, location.href);
    location.assign(url.origin === location.origin ? url : location.href);
  };

  const send = async () => {
    if (isSending || isSaved) return;
    clearTimeout(timer);
    isSending = true;
    setLocked(true);
    seconds.value = Math.min(spent(), 86400).toFixed(1); // a page can stay open for days
    const stop = new AbortController();
    const limit = setTimeout(() => stop.abort(), 20000);
    try {
      const answer = await fetch(form.action, {
        method: "POST", headers: { Accept: "application/json" }, body: new URLSearchParams(new FormData(form)),
        credentials: "same-origin", cache: "no-store", signal: stop.signal,
      });
      const result = await answer.json().catch(() => ({}));
      if ((answer.ok && result.next) || answer.status === 409) proceed(result.next);
      else if (answer.ok) retryLater("something other than the study has answered"); // such as the login page of a hotel network
      else if (answer.status === 429 || answer.status >= 500) retryLater("the server is busy");
      else refused(result.detail || "the server did not take the answer. Reload the page and try again.");
    } catch {
      retryLater("no connection");
    } finally {
      clearTimeout(limit);
      isSending = false;
    }
  };
  addEventListener("online", () => { if (timer && !retry.hidden) send(); });
  retry.addEventListener("click", send);

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (button.disabled) return;
    if (!touched.value && !isAsked && form.querySelector("#cards")) {
      isAsked = true;
      say("Is this already the order you mean? Press Save again to send it.");
      return;
    }
    tries = 0;
    send();
  });

  // Keys 1 … 9 choose and Enter saves. People can switch them off.
  const radios = [...form.querySelectorAll("[type=radio]")];
  const keys = form.querySelector("[data-keys]");
  if (!keys) return;
  keys.checked = withStorage((store) => store.getItem("didact keys")) !== "off";
  keys.addEventListener("change", () => withStorage((store) => store.setItem("didact keys", keys.checked ? "on" : "off")));
  document.addEventListener("keydown", (event) => {
    if (!keys.checked || body.inert || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
    if (/^[1-9]$/.test(event.key)) {
      const radio = radios.find((choice) => choice.value === event.key && choice.name === "rating")
        || (radios[0]?.name === "rating" ? null : radios[event.key - 1]);
      if (!radio) return;
      radio.checked = true;
      radio.focus();
      radio.dispatchEvent(new Event("change", { bubbles: true }));
    } else if (event.key === "Enter" && !event.target.closest("a, button, input, summary")) {
      form.requestSubmit(button);
    }
  });
})();
