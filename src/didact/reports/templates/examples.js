// The example browser. It reads rows from the page's data and builds elements; data is never parsed as HTML.
// The template example.html.j2 draws the same elements for readers without scripts.
(() => {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const holder = document.getElementById("examples-data");
  const root = document.querySelector("#examples .browser");
  if (!holder || !root) return;
  const data = JSON.parse(holder.textContent);
  const get = (name) => document.getElementById(`examples-${name}`);
  const [find, filter, sort, picker] = [get("find"), get("filter"), get("sort"), get("row")];
  const [view, count, status] = [get("view"), get("count"), get("said")];
  const controls = get("controls");
  const marks = get("marks");

  let order = data.rows.map((_, index) => index);
  let at = 0; // the index of the shown row in the data
  let shown = []; // for each method on the page: its scored elements by key
  let keysOf = new WeakMap(); // the keys of each scored element
  let steps = []; // the elements that comma and full stop step through
  let step = -1;

  // -- elements ------------------------------------------------------------------------------------------------------

  function make(tag, look, ...inside) {
    const element = document.createElement(tag);
    if (look) element.className = look;
    element.append(...inside.filter((child) => child !== null));
    return element;
  }

  function draw(tag, attributes) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  const level = (heatMap, unit) => parseInt(heatMap.levels[unit], data.levels + 1);

  // The class of the strongest of some units, and their tooltip.
  function lookAndTitle(units, heatMap) {
    const levels = units.map((unit) => level(heatMap, unit));
    if (heatMap.kind === "binary") {
      const strongest = Math.max(...levels);
      return [strongest ? `strength${strongest}` : "", levels.map((strength) => (strength ? "marked" : "not marked")).join(", ")];
    }
    const scores = units.map((unit) => heatMap.scores[unit]);
    let best = 0;
    scores.forEach((score, index) => {
      if (Math.abs(parseFloat(score)) > Math.abs(parseFloat(scores[best]))) best = index;
    });
    const hue = heatMap.kind !== "signed" ? "strength" : parseFloat(scores[best]) > 0 ? "for" : "against";
    return [levels[best] ? hue + levels[best] : "", scores.join(", ")];
  }

  function span(text, units, heatMap, isMarked, keys) {
    if (!heatMap || !units.length) return isMarked ? make("span", "mark", text) : text;
    const [look, title] = lookAndTitle(units, heatMap);
    const element = make("span", [look, isMarked ? "mark" : ""].filter(Boolean).join(" "), text);
    element.title = title;
    register(element, keys, heatMap, title);
    return element;
  }

  function register(element, keys, heatMap, title) {
    keysOf.set(element, keys);
    for (const key of keys) heatMap.elements.set(key, { element, title });
  }

  function texts(row, heatMap) {
    const fragment = document.createDocumentFragment();
    row.texts.forEach((text, number) => {
      const body = make("p", "text");
      body.lang = "";
      body.dir = "auto";
      const covers = heatMap ? text.units[heatMap.layout].map((unit) => (Array.isArray(unit) ? unit : unit < 0 ? [] : [unit])) : null;
      const look = (index) => `${covers ? covers[index] : ""}|${text.marked[index]}`;
      for (let from = 0, to = 0; from < text.pieces.length; from = to) {
        while (to < text.pieces.length && look(to) === look(from)) to += 1;
        const keys = [];
        for (let index = from; index < to; index += 1) keys.push(`${number}:${index}`);
        body.append(
          span(text.pieces.slice(from, to).join(""), covers ? covers[from] : [], heatMap, text.marked[from] === "1", keys),
        );
      }
      if (row.isLong) body.tabIndex = 0; // keyboard users can reach a text that scrolls
      fragment.append(row.texts.length > 1 ? make("div", "named", make("p", "name", text.name), body) : body);
    });
    if (heatMap) fragment.append(...outside(row, heatMap), make("p", "unseen", heatMap.strongest));
    return fragment;
  }

  function outside(row, heatMap) {
    const units = row.layouts[heatMap.layout].outside;
    if (!units.length) return [];
    const line = make("p", "quiet", "not in the text: ");
    units.forEach(([unit, token], index) => {
      line.append(index ? " " : "", span(token || "(empty)", [unit], heatMap, false, [`outside:${token}`]));
    });
    return [line];
  }

  function who(method, heatMap) {
    const kind = make("p", "kind", method.kind);
    if (method.control) kind.append(make("span", "badge", "control"));
    const score = make("b", "score");
    kind.append(score);
    const label = make("div", "who", make("p", "name", method.name), kind);
    if (heatMap) {
      heatMap.score = score;
      if (heatMap.target) label.append(make("p", "kind", `target ${heatMap.target}`));
    }
    return label;
  }

  function picture(row, rects, alt, look) {
    const [height, width] = row.size;
    const frame = make("div", look);
    const overlay = draw("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" });
    if (row.picture) {
      const image = make("img", "");
      image.alt = alt;
      image.src = row.picture;
      frame.append(image);
      overlay.setAttribute("aria-hidden", "true");
    } else {
      overlay.setAttribute("role", "img");
      overlay.setAttribute("aria-label", alt);
    }
    overlay.append(...rects);
    frame.append(overlay);
    return frame;
  }

  function rect(box, look) {
    const [top, left, bottom, right] = box;
    const attributes = { x: left, y: top, width: Math.max(right - left, 0), height: Math.max(bottom - top, 0) };
    return draw("rect", look ? { class: look, ...attributes } : attributes);
  }

  function patch(box, unit, heatMap) {
    const [look, tooltip] = lookAndTitle([unit], heatMap);
    const hue = look.replace(/\d+$/, "");
    const element = rect(box, hue && hue + data.levels);
    element.setAttribute("fill-opacity", String(Number(((data.cover * level(heatMap, unit)) / data.levels).toFixed(3))));
    const title = draw("title", {});
    title.textContent = `rows ${box[0]} to ${box[2]}, columns ${box[1]} to ${box[3]}: ${tooltip}`;
    element.append(title);
    register(element, [box.join(",")], heatMap, tooltip);
    return element;
  }

  const frames = (row) => row.frames.flatMap((box) => [rect(box, "under"), rect(box, "over")]);
  const none = () => make("p", "quiet", "no explanation of this row");

  function pictures(row, heatMaps) {
    const alt = `The picture of row ${row.id}`;
    const plain = make("div", "who", make("p", "name", "as it is"));
    const container = make("div", "pictures");
    container.append(make("figure", "", picture(row, frames(row), alt, "picture"), make("figcaption", "", plain)));
    for (const [method, heatMap] of heatMaps) {
      const caption = make("figcaption", "", who(method, heatMap));
      if (!heatMap) {
        container.append(make("figure", "", none(), caption));
        continue;
      }
      const rects = row.layouts[heatMap.layout].boxes.map((box, unit) => patch(box, unit, heatMap));
      const words = `${alt}, under the scores of ${method.name}. ${heatMap.strongest}`;
      const drawn = picture(row, [...rects, ...frames(row)], words, "picture grey");
      container.append(make("figure", "", drawn, caption, ...outside(row, heatMap)));
    }
    return [container];
  }

  function lines(row, heatMaps) {
    const name = row.texts.length === 1 ? "text" : "texts";
    const plain = make("div", "who", make("p", "name", name));
    const elements = [make("div", "line plain", plain, make("div", "what", texts(row, null)))];
    for (const [method, heatMap] of heatMaps) {
      elements.push(make("div", "line", who(method, heatMap), make("div", "what", heatMap ? texts(row, heatMap) : none())));
    }
    return elements;
  }

  function article(row) {
    const heatMaps = data.methods.flatMap((method, index) => (isShown(method, index) ? [[method, decode(row, index)]] : []));
    shown = heatMaps.map(([, heatMap]) => heatMap).filter(Boolean);
    const facts = make("p", "facts");
    for (const [name, value, look] of row.facts) {
      facts.append(make("span", look, name ? `${name} ` : "", make("b", "", value)));
    }
    const length = row.texts.reduce((sum, text) => sum + text.pieces.reduce((all, piece) => all + [...piece].length, 0), 0);
    row.isLong = length > data.long;
    const element = make("article", row.isLong ? "row long" : "row", make("h3", "", row.id), facts);
    if (row.note) element.append(make("p", "note", row.note));
    element.append(...(row.size ? pictures(row, heatMaps) : lines(row, heatMaps)));
    element.normalize();
    return element;
  }

  function decode(row, index) {
    const encoded = row.maps[index];
    if (!encoded) return null;
    const [layout, levels, scores, strongest, target] = encoded;
    const kind = data.methods[index].kind;
    const name = data.methods[index].name;
    return { name, kind, layout, levels, scores: scores.split(" "), strongest, target, elements: new Map(), score: null };
  }

  function isShown(method, index) {
    const box = get("methods").querySelector(`input[value="${index}"]`);
    return box.checked && !(method.control && controls && !controls.checked);
  }

  // -- which row -----------------------------------------------------------------------------------------------------

  const words = data.rows.map((row) =>
    [row.id, ...row.texts.map((text) => text.pieces.join(""))].join("\n").toLowerCase(),
  );
  const orElse = (value, otherwise) => (typeof value === "number" ? value : otherwise);

  // Apply the filters and the order. The row on the page stays if it passes.
  function choose() {
    const terms = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    order = data.rows
      .map((_, index) => index)
      .filter((index) => filter.value === "all" || data.rows[index].groups.includes(filter.value))
      .filter((index) => terms.every((word) => words[index].includes(word)));
    if (sort.value !== "data") {
      const key = (index) => orElse(data.rows[index][sort.value], Infinity);
      order.sort((first, second) => key(first) - key(second) || first - second);
    }
    picker.replaceChildren(...order.map(option));
    picker.disabled = !order.length;
    if (!order.includes(at) && order.length) at = order[0];
    show(`${order.length} of ${data.rows.length} rows. `);
  }

  function option(index) {
    const row = data.rows[index];
    const text = row.texts.map((entry) => entry.pieces.join("")).join(" | ").replace(/\s+/g, " ");
    const characters = [...text];
    const start = characters.length > 60 ? `${characters.slice(0, 60).join("")}…` : text;
    const element = make("option", "", [row.id, start].filter(Boolean).join(" · "));
    element.value = String(index);
    return element;
  }

  function show(before = "") {
    steps = [];
    step = -1;
    keysOf = new WeakMap();
    const position = order.indexOf(at);
    get("back").setAttribute("aria-disabled", String(position <= 0));
    get("next").setAttribute("aria-disabled", String(position >= order.length - 1));
    if (!order.length) {
      shown = [];
      count.textContent = "no row";
      view.replaceChildren(make("p", "none", empty()));
      status.textContent = `No row. ${empty()}`;
      return;
    }
    const row = data.rows[at];
    picker.value = String(at);
    count.textContent = `row ${position + 1} of ${order.length}`;
    view.replaceChildren(article(row));
    const facts = row.facts.map(([name, value]) => `${name} ${value}`.trim()).join(", ");
    status.textContent = `${before}Row ${position + 1} of ${order.length}: ${row.id}; ${facts}.`;
  }

  function empty() {
    if (find.value.trim()) return `No row has “${find.value.trim()}” in it here. Try fewer words, or show all rows.`;
    return "No row passes this filter. Show all rows to continue.";
  }

  function turn(by) {
    const position = order.indexOf(at) + by;
    if (position < 0 || position >= order.length) {
      status.textContent = by > 0 ? "This is the last row." : "This is the first row.";
      return;
    }
    at = order[position];
    show();
  }

  // -- one unit in all methods ---------------------------------------------------------------------------------------

  // Mark the same unit in every method, and write its score beside each name.
  function point(keys) {
    for (const element of view.querySelectorAll(".here")) element.classList.remove("here");
    return shown.flatMap((heatMap) => {
      const entry = keys && keys.map((key) => heatMap.elements.get(key)).find(Boolean);
      heatMap.score.textContent = entry ? entry.title : "";
      if (!entry) return [];
      entry.element.classList.add("here");
      return [`${heatMap.name} ${entry.title}`];
    });
  }

  const pointed = (event) => keysOf.get(event.target.closest ? event.target.closest("span, rect") : null);

  function walk(by) {
    if (!steps.length && shown.length) {
      const longest = shown.reduce((first, second) => (second.elements.size > first.elements.size ? second : first));
      steps = [...new Set([...longest.elements.values()].map((entry) => entry.element))];
    }
    if (!steps.length) return;
    step = Math.min(Math.max(step + by, 0), steps.length - 1);
    const scores = point(keysOf.get(steps[step]));
    const title = steps[step].querySelector("title");
    status.textContent = `${title ? title.textContent.split(":")[0] : steps[step].textContent}: ${scores.join("; ")}.`;
    if (steps[step].scrollIntoView) steps[step].scrollIntoView({ block: "nearest" });
  }

  view.addEventListener("pointerover", (event) => {
    const keys = pointed(event);
    if (keys) point(keys);
  });
  view.addEventListener("click", (event) => point(pointed(event)));
  view.addEventListener("pointerleave", () => point(null));

  // Long texts scroll together, so that the same lines stay side by side.
  let scrolled = null;
  view.addEventListener(
    "scroll",
    (event) => {
      const moved = event.target;
      if (!moved.classList || !moved.classList.contains("text") || (scrolled && scrolled !== moved)) return;
      scrolled = moved;
      const number = (text) => (text.parentElement.matches(".named") ? [...text.parentElement.parentElement.children].indexOf(text.parentElement) : 0);
      const room = moved.scrollHeight - moved.clientHeight;
      for (const text of view.querySelectorAll(".text")) {
        if (text === moved || number(text) !== number(moved)) continue;
        text.scrollTop = room ? (moved.scrollTop / room) * (text.scrollHeight - text.clientHeight) : 0;
      }
      requestAnimationFrame(() => requestAnimationFrame(() => { scrolled = null; }));
    },
    { capture: true, passive: true },
  );

  // -- controls ------------------------------------------------------------------------------------------------------

  get("back").addEventListener("click", () => turn(-1));
  get("next").addEventListener("click", () => turn(1));
  picker.addEventListener("change", () => {
    at = Number(picker.value);
    show();
  });
  find.addEventListener("input", choose);
  filter.addEventListener("change", choose);
  sort.addEventListener("change", choose);
  get("methods").addEventListener("change", () => show());
  if (controls) controls.addEventListener("change", () => show());
  if (marks) marks.addEventListener("change", () => view.classList.toggle("unmarked", !marks.checked));

  const KEYS = { ArrowRight: 1, j: 1, ArrowLeft: -1, k: -1 };
  const STEPS = { ".": 1, ",": -1 };
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.target.matches("select, input[type=search]")) return;
    if (event.key in KEYS) turn(KEYS[event.key]);
    else if (event.key in STEPS) walk(STEPS[event.key]);
    else return;
    event.preventDefault();
  });

  // A browser that returns to the page keeps the earlier choices.
  choose();
  if (marks) view.classList.toggle("unmarked", !marks.checked);
  status.textContent = "";
  root.hidden = false;
})();
