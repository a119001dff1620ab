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
  const [view, count, said] = [get("view"), get("count"), get("said")];
  const controls = get("controls");
  const marks = get("marks");

  let order = data.rows.map((_, place) => place);
  let at = 0; // the index of the shown row in the data
  let shown = []; // for each method on the page: its scored elements by key
  let places = new WeakMap(); // the keys of each scored element
  let steps = []; // the elements that comma and full stop step through
  let step = -1;

  // -- elements ------------------------------------------------------------------------------------------------------

  function make(tag, look, ...inside) {
    const element = document.createElement(tag);
    if (look) element.className = look;
    element.append(...inside.filter((one) => one !== null));
    return element;
  }

  function draw(tag, facts) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(facts)) element.setAttribute(name, value);
    return element;
  }

  const level = (heat, unit) => parseInt(heat.levels[unit], data.levels + 1);

  // The class of the strongest of some units, and their tooltip.
  function told(units, heat) {
    const levels = units.map((unit) => level(heat, unit));
    if (heat.kind === "binary") {
      const most = Math.max(...levels);
      return [most ? `strength${most}` : "", levels.map((one) => (one ? "marked" : "not marked")).join(", ")];
    }
    const scores = units.map((unit) => heat.scores[unit]);
    let best = 0;
    scores.forEach((score, place) => {
      if (Math.abs(parseFloat(score)) > Math.abs(parseFloat(scores[best]))) best = place;
    });
    const hue = heat.kind !== "signed" ? "strength" : parseFloat(scores[best]) > 0 ? "for" : "against";
    return [levels[best] ? hue + levels[best] : "", scores.join(", ")];
  }

  function span(text, units, heat, isMarked, keys) {
    if (!heat || !units.length) return isMarked ? make("span", "mark", text) : text;
    const [look, title] = told(units, heat);
    const element = make("span", [look, isMarked ? "mark" : ""].filter(Boolean).join(" "), text);
    element.title = title;
    keep(element, keys, heat, title);
    return element;
  }

  function keep(element, keys, heat, title) {
    places.set(element, keys);
    for (const key of keys) heat.elements.set(key, { element, title });
  }

  function texts(row, heat) {
    const found = document.createDocumentFragment();
    row.texts.forEach((text, number) => {
      const body = make("p", "text");
      body.lang = "";
      body.dir = "auto";
      const covers = heat ? text.units[heat.layout].map((one) => (Array.isArray(one) ? one : one < 0 ? [] : [one])) : null;
      const look = (place) => `${covers ? covers[place] : ""}|${text.marked[place]}`;
      for (let from = 0, to = 0; from < text.pieces.length; from = to) {
        while (to < text.pieces.length && look(to) === look(from)) to += 1;
        const keys = [];
        for (let place = from; place < to; place += 1) keys.push(`${number}:${place}`);
        body.append(
          span(text.pieces.slice(from, to).join(""), covers ? covers[from] : [], heat, text.marked[from] === "1", keys),
        );
      }
      if (row.isLong) body.tabIndex = 0; // keyboard users can reach a text that scrolls
      found.append(row.texts.length > 1 ? make("div", "named", make("p", "name", text.name), body) : body);
    });
    if (heat) found.append(...outside(row, heat), make("p", "unseen", heat.strongest));
    return found;
  }

  function outside(row, heat) {
    const units = row.layouts[heat.layout].outside;
    if (!units.length) return [];
    const line = make("p", "quiet", "not in the text: ");
    units.forEach(([unit, token], place) => {
      line.append(place ? " " : "", span(token || "(empty)", [unit], heat, false, [`outside:${token}`]));
    });
    return [line];
  }

  function who(method, heat) {
    const kind = make("p", "kind", method.kind);
    if (method.control) kind.append(make("span", "badge", "control"));
    const score = make("b", "score");
    kind.append(score);
    const found = make("div", "who", make("p", "name", method.name), kind);
    if (heat) {
      heat.score = score;
      if (heat.target) found.append(make("p", "kind", `target ${heat.target}`));
    }
    return found;
  }

  function picture(row, rects, alt, look) {
    const [height, width] = row.size;
    const found = make("div", look);
    const cover = draw("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" });
    if (row.picture) {
      const image = make("img", "");
      image.alt = alt;
      image.src = row.picture;
      found.append(image);
      cover.setAttribute("aria-hidden", "true");
    } else {
      cover.setAttribute("role", "img");
      cover.setAttribute("aria-label", alt);
    }
    cover.append(...rects);
    found.append(cover);
    return found;
  }

  function rect(box, look) {
    const [top, left, bottom, right] = box;
    const facts = { x: left, y: top, width: Math.max(right - left, 0), height: Math.max(bottom - top, 0) };
    return draw("rect", look ? { class: look, ...facts } : facts);
  }

  function patch(box, unit, heat) {
    const [look, read] = told([unit], heat);
    const hue = look.replace(/\d+$/, "");
    const found = rect(box, hue && hue + data.levels);
    found.setAttribute("fill-opacity", String(Number(((data.cover * level(heat, unit)) / data.levels).toFixed(3))));
    const title = draw("title", {});
    title.textContent = `rows ${box[0]} to ${box[2]}, columns ${box[1]} to ${box[3]}: ${read}`;
    found.append(title);
    keep(found, [box.join(",")], heat, read);
    return found;
  }

  const frames = (row) => row.frames.flatMap((box) => [rect(box, "under"), rect(box, "over")]);
  const none = () => make("p", "quiet", "no explanation of this row");

  function pictures(row, heats) {
    const alt = `The picture of row ${row.id}`;
    const plain = make("div", "who", make("p", "name", "as it is"));
    const found = make("div", "pictures");
    found.append(make("figure", "", picture(row, frames(row), alt, "picture"), make("figcaption", "", plain)));
    for (const [method, heat] of heats) {
      const caption = make("figcaption", "", who(method, heat));
      if (!heat) {
        found.append(make("figure", "", none(), caption));
        continue;
      }
      const rects = row.layouts[heat.layout].boxes.map((box, unit) => patch(box, unit, heat));
      const words = `${alt}, under the scores of ${method.name}. ${heat.strongest}`;
      const drawn = picture(row, [...rects, ...frames(row)], words, "picture grey");
      found.append(make("figure", "", drawn, caption, ...outside(row, heat)));
    }
    return [found];
  }

  function lines(row, heats) {
    const name = row.texts.length === 1 ? "text" : "texts";
    const plain = make("div", "who", make("p", "name", name));
    const found = [make("div", "line plain", plain, make("div", "what", texts(row, null)))];
    for (const [method, heat] of heats) {
      found.push(make("div", "line", who(method, heat), make("div", "what", heat ? texts(row, heat) : none())));
    }
    return found;
  }

  function article(row) {
    const heats = data.methods.flatMap((method, place) => (isShown(method, place) ? [[method, opened(row, place)]] : []));
    shown = heats.map(([, heat]) => heat).filter(Boolean);
    const facts = make("p", "facts");
    for (const [name, value, look] of row.facts) {
      facts.append(make("span", look, name ? `${name} ` : "", make("b", "", value)));
    }
    const length = row.texts.reduce((sum, text) => sum + text.pieces.reduce((all, one) => all + [...one].length, 0), 0);
    row.isLong = length > data.long;
    const found = make("article", row.isLong ? "row long" : "row", make("h3", "", row.id), facts);
    if (row.note) found.append(make("p", "note", row.note));
    found.append(...(row.size ? pictures(row, heats) : lines(row, heats)));
    found.normalize();
    return found;
  }

  function opened(row, place) {
    const found = row.maps[place];
    if (!found) return null;
    const [layout, levels, scores, strongest, target] = found;
    const kind = data.methods[place].kind;
    const name = data.methods[place].name;
    return { name, kind, layout, levels, scores: scores.split(" "), strongest, target, elements: new Map(), score: null };
  }

  function isShown(method, place) {
    const box = get("methods").querySelector(`input[value="${place}"]`);
    return box.checked && !(method.control && controls && !controls.checked);
  }

  // -- which row -----------------------------------------------------------------------------------------------------

  const words = data.rows.map((row) =>
    [row.id, ...row.texts.map((text) => text.pieces.join(""))].join("\n").toLowerCase(),
  );
  const known = (value, otherwise) => (typeof value === "number" ? value : otherwise);

  // Apply the filters and the order. The row on the page stays if it passes.
  function choose() {
    const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    order = data.rows
      .map((_, place) => place)
      .filter((place) => filter.value === "all" || data.rows[place].groups.includes(filter.value))
      .filter((place) => wanted.every((word) => words[place].includes(word)));
    if (sort.value !== "data") {
      const key = (place) => known(data.rows[place][sort.value], Infinity);
      order.sort((one, other) => key(one) - key(other) || one - other);
    }
    picker.replaceChildren(...order.map(option));
    picker.disabled = !order.length;
    if (!order.includes(at) && order.length) at = order[0];
    show(`${order.length} of ${data.rows.length} rows. `);
  }

  function option(place) {
    const row = data.rows[place];
    const text = row.texts.map((one) => one.pieces.join("")).join(" | ").replace(/\s+/g, " ");
    const signs = [...text];
    const start = signs.length > 60 ? `${signs.slice(0, 60).join("")}…` : text;
    const found = make("option", "", [row.id, start].filter(Boolean).join(" · "));
    found.value = String(place);
    return found;
  }

  function show(before = "") {
    steps = [];
    step = -1;
    places = new WeakMap();
    const place = order.indexOf(at);
    get("back").setAttribute("aria-disabled", String(place <= 0));
    get("next").setAttribute("aria-disabled", String(place >= order.length - 1));
    if (!order.length) {
      shown = [];
      count.textContent = "no row";
      view.replaceChildren(make("p", "none", empty()));
      said.textContent = `No row. ${empty()}`;
      return;
    }
    const row = data.rows[at];
    picker.value = String(at);
    count.textContent = `row ${place + 1} of ${order.length}`;
    view.replaceChildren(article(row));
    const facts = row.facts.map(([name, value]) => `${name} ${value}`.trim()).join(", ");
    said.textContent = `${before}Row ${place + 1} of ${order.length}: ${row.id}; ${facts}.`;
  }

  function empty() {
    if (find.value.trim()) return `No row has “${find.value.trim()}” in it here. Try fewer words, or show all rows.`;
    return "No row passes this filter. Show all rows to continue.";
  }

  function turn(by) {
    const place = order.indexOf(at) + by;
    if (place < 0 || place >= order.length) {
      said.textContent = by > 0 ? "This is the last row." : "This is the first row.";
      return;
    }
    at = order[place];
    show();
  }

  // -- one unit in all methods ---------------------------------------------------------------------------------------

  // Mark the same unit in every method, and write its score beside each name.
  function point(keys) {
    for (const one of view.querySelectorAll(".here")) one.classList.remove("here");
    return shown.flatMap((heat) => {
      const found = keys && keys.map((key) => heat.elements.get(key)).find(Boolean);
      heat.score.textContent = found ? found.title : "";
      if (!found) return [];
      found.element.classList.add("here");
      return [`${heat.name} ${found.title}`];
    });
  }

  const pointed = (event) => places.get(event.target.closest ? event.target.closest("span, rect") : null);

  function walk(by) {
    if (!steps.length && shown.length) {
      const longest = shown.reduce((one, other) => (other.elements.size > one.elements.size ? other : one));
      steps = [...new Set([...longest.elements.values()].map((one) => one.element))];
    }
    if (!steps.length) return;
    step = Math.min(Math.max(step + by, 0), steps.length - 1);
    const scores = point(places.get(steps[step]));
    const title = steps[step].querySelector("title");
    said.textContent = `${title ? title.textContent.split(":")[0] : steps[step].textContent}: ${scores.join("; ")}.`;
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
  said.textContent = "";
  root.hidden = false;
})();
