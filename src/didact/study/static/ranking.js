// Orders cards, with ties, by pointer, buttons and keyboard. The form's selects hold the ranks; this script sets them.
"use strict";
(() => {
  const list = document.querySelector("#cards");
  if (!list) return;
  const slots = new Map([...list.children].map((slot) => [slot.dataset.code, slot]));
  const letter = (code) => slots.get(code).dataset.letter;
  const select = (code) => slots.get(code).querySelector("select");
  const isGrid = list.classList.contains("grid");
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)");
  const ordinalWords = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
  const ordinal = (rank) => rank + (/1[123]$/.test(rank) ? "th" : ["th", "st", "nd", "rd"][rank % 10] || "th");

  // An order is a list of groups of equal cards, best first: [["a"], ["b", "c"], ["d"]]. These functions return a new one.
  const same = (first, second) => JSON.stringify(first) === JSON.stringify(second);
  const groupOf = (order, code) => order.findIndex((group) => group.includes(code));
  const without = (order, code) => order.map((group) => group.filter((other) => other !== code)).filter((group) => group.length);
  const rankOf = (order, code) => 1 + order.slice(0, groupOf(order, code)).flat().length;

  const spliced = (list, at, cut, ...more) => [...list.slice(0, at), ...more, ...list.slice(at + cut)];

  // Move a card one step: out of its group of equals, or past the next group.
  const stepped = (order, code, step) => {
    const at = groupOf(order, code);
    const rest = without(order, code);
    if (order[at].length > 1) return spliced(rest, step < 0 ? at : at + 1, 0, [code]);
    return at + step < 0 || at + step >= order.length ? order : spliced(rest, at + step, 0, [code]);
  };
  // Move a card to a position among all cards. Between equal cards it becomes one of them.
  const placed = (order, code, position) => {
    const rest = without(order, code);
    let passed = 0;
    for (const [at, group] of rest.entries()) {
      if (position === passed) return spliced(rest, at, 0, [code]);
      if (position < passed + group.length) return spliced(rest, at, 1, spliced(group, position - passed, 0, code));
      passed += group.length;
    }
    return [...rest, [code]];
  };
  // Make a card equal to the one before, or undo that.
  const tied = (order, code) => {
    const at = groupOf(order, code);
    const inside = order[at].indexOf(code);
    if (inside) return spliced(order, at, 1, order[at].slice(0, inside), order[at].slice(inside));
    return at ? spliced(order, at - 1, 2, [...order[at - 1], ...order[at]]) : order;
  };

  // The buttons of each card, besides its select.
  const make = (kind, inside, onClick) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = kind;
    button.append(...inside);
    if (onClick) button.addEventListener("click", onClick);
    return button;
  };
  const span = (kind, text, isHidden = false) => {
    const element = document.createElement("span");
    element.className = kind;
    element.textContent = text;
    if (isHidden) element.setAttribute("aria-hidden", "true");
    return element;
  };
  for (const [code, slot] of slots) {
    const name = span("letter", letter(code));
    const handle = make("handle", [span("grip", "⋮⋮", true), name, span("place", ""), span("unseen", ` of ${slots.size}`)]);
    handle.setAttribute("aria-describedby", "how");
    const up = make("move up", [span("", "▲", true)], () => change(stepped(order, code, -1), code));
    const down = make("move down", [span("", "▼", true)], () => change(stepped(order, code, 1), code));
    up.setAttribute("aria-label", `Move ${letter(code)} up`);
    down.setAttribute("aria-label", `Move ${letter(code)} down`);
    slot.querySelector(".rank").hidden = true;
    const moves = span("moves", "");
    moves.append(up, down);
    slot.querySelector(".head").append(handle, moves);
    const seam = document.createElement("div");
    seam.className = "seam";
    seam.append(make("tie", [span("pair", ""), span("unseen", " are equal")], () => change(tied(order, code), code)));
    slot.prepend(seam);
    handle.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
      if (step) change(stepped(order, code, step), code);
      else if (["=", "t", "T"].includes(event.key)) change(tied(order, code), code);
      else return;
      event.preventDefault();
    });
  }

  // The initial order: that of the selects (a draft or a refused answer), else that of the page.
  const codes = [...slots.keys()];
  const isRanked = codes.every((code) => select(code).value);
  let order = isRanked ? [] : codes.map((code) => [code]);
  if (isRanked) {
    for (let rank = 1; rank <= codes.length; rank++) order.push(codes.filter((code) => Number(select(code).value) === rank));
    order = order.filter((group) => group.length);
  }

  // `pinned` keeps its position in the document, and so its focus and pointer; the others move around it.
  const show = (pinned = null) => {
    const flat = order.flat();
    const before = new Map(flat.map((code) => [code, [slots.get(code).offsetLeft, slots.get(code).offsetTop]]));
    const middle = flat.indexOf(pinned);
    flat.forEach((code, at) => {
      const slot = slots.get(code);
      if (at < middle) list.insertBefore(slot, slots.get(pinned));
      else if (at > middle) list.append(slot);
    });
    flat.forEach((code, at) => {
      const slot = slots.get(code);
      const group = order[groupOf(order, code)];
      const rank = rankOf(order, code);
      const isTied = group.indexOf(code) > 0;
      select(code).value = rank;
      slot.querySelector(".place").textContent = (group.length > 1 ? "=" : "") + ordinal(rank);
      slot.classList.toggle("tied", isTied);
      slot.querySelector(".pair").textContent = at ? `${letter(flat[at - 1])} = ${letter(code)}` : "";
      slot.querySelector(".tie").setAttribute("aria-pressed", isTied);
      slot.querySelector(".up").setAttribute("aria-disabled", same(stepped(order, code, -1), order));
      slot.querySelector(".down").setAttribute("aria-disabled", same(stepped(order, code, 1), order));
      const [left, top] = before.get(code);
      const [x, y] = [left - slot.offsetLeft, top - slot.offsetTop];
      if ((x || y) && pinned && !slot.classList.contains("lifted") && !isCalm.matches) {
        slot.animate([{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }], { duration: 160, easing: "ease-out" });
      }
    });
  };

  const status = document.querySelector("#said");
  const announce = (code) => {
    const others = order[groupOf(order, code)].filter((other) => other !== code).map(letter);
    const rank = rankOf(order, code);
    status.textContent = `${letter(code)} is now ${ordinalWords[rank - 1] || ordinal(rank)}${others.length ? `, equal to ${others.join(" and ")}` : ""}`;
  };
  const announceAndStore = (code) => {
    announce(code);
    select(code).dispatchEvent(new Event("change", { bubbles: true }));
  };
  const change = (next, code) => {
    if (same(next, order)) return;
    order = next;
    show(code);
    slots.get(code).scrollIntoView({ block: "nearest" });
    announceAndStore(code);
  };

  // Dragging: by the handle with any pointer, by the whole card with a mouse.
  let drag = null;
  list.addEventListener("pointerdown", (event) => {
    if (drag || event.button || !event.isPrimary) return;
    const isHandle = event.target.closest(".handle");
    const isCard = event.pointerType === "mouse" && event.target.closest(".card") && !event.target.closest("button, select, label");
    const isBar = event.target.clientWidth && event.offsetX > event.target.clientWidth; // the scrollbar of a long text
    if (!isHandle && (!isCard || isBar)) return;
    const slot = event.target.closest(".slot");
    const box = slot.getBoundingClientRect();
    drag = {
      slot, code: slot.dataset.code, id: event.pointerId, start: order, from: order.flat().indexOf(slot.dataset.code),
      x: event.clientX, y: event.clientY, byX: event.clientX - box.left, byY: event.clientY - box.top, isOn: false,
    };
  });
  list.addEventListener("dragstart", (event) => event.preventDefault());
  addEventListener("pointermove", (event) => {
    if (!drag || event.pointerId !== drag.id) return;
    if (!drag.isOn && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < 4) return;
    [drag.x, drag.y] = [event.clientX, event.clientY];
    if (drag.isOn) return;
    drag.isOn = true;
    drag.slot.setPointerCapture(drag.id);
    drag.slot.classList.add("lifted");
    document.documentElement.classList.add("dragging");
    requestAnimationFrame(follow);
  });
  addEventListener("pointerup", (event) => drag && event.pointerId === drag.id && drop(true));
  addEventListener("pointercancel", (event) => drag && event.pointerId === drag.id && drop(false));
  addEventListener("keydown", (event) => drag?.isOn && event.key === "Escape" && drop(false));

  const follow = () => {
    if (!drag) return;
    const edge = 70;
    const beyond = Math.min(0, drag.y - edge) + Math.max(0, drag.y - innerHeight + edge);
    if (beyond) scrollBy({ top: Math.max(-18, Math.min(18, beyond / 3)), behavior: "instant" });
    moveCard();
    requestAnimationFrame(follow);
  };
  const moveCard = () => {
    const { slot, code } = drag;
    const box = list.getBoundingClientRect();
    const within = (value, room) => Math.max(-30, Math.min(room + 30, value)); // further out, the page would grow without end
    const left = isGrid ? within(drag.x - drag.byX - box.left, list.offsetWidth - slot.offsetWidth) : 0;
    const top = within(drag.y - drag.byY - box.top, list.offsetHeight - slot.offsetHeight);
    const distance = (other) => Math.hypot(other.offsetLeft + other.offsetWidth / 2 - left - slot.offsetWidth / 2,
      other.offsetTop + other.offsetHeight / 2 - top - slot.offsetHeight / 2);
    const flat = order.flat().map((other) => slots.get(other));
    const at = flat.reduce((best, other, index) => (distance(other) < distance(flat[best]) ? index : best), flat.indexOf(slot));
    if (flat[at] !== slot) {
      order = at === drag.from ? drag.start : placed(drag.start, code, at);
      show(code);
    }
    slot.style.transform = `translate(${left - slot.offsetLeft}px, ${top - slot.offsetTop}px)`;
  };
  const drop = (isMeant) => {
    const { slot, code, start, isOn } = drag;
    if (isOn && isMeant) moveCard();
    drag = null;
    if (!isOn) return;
    slot.style.transform = "";
    slot.classList.remove("lifted");
    document.documentElement.classList.remove("dragging");
    if (!isMeant) order = start;
    show(code);
    slot.scrollIntoView({ block: "nearest" });
    if (!same(order, start)) announceAndStore(code);
  };

  show();
})();
