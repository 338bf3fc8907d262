// Finds pages that have all words of the query. The index is loaded when it is first needed.
(() => {
  const root = new URL(".", document.querySelector("header .name").href).href;
  const input = document.getElementById("search");
  const found = document.getElementById("found");
  let loading;

  const load = () => loading ??= new Promise((done) => {
    const index = document.createElement("script");
    index.src = root + "index.js";
    index.onload = done;
    document.head.append(index);
  });

  const show = async () => {
    await load();
    const query = input.value.toLowerCase();
    const words = query.split(/\s+/).filter(Boolean);
    const hits = [];
    for (const page of searchIndex) {
      const title = page.title.toLowerCase(), text = page.text.toLowerCase();
      if (!words.length || !words.every((w) => title.includes(w) || text.includes(w))) continue;
      const score = words.reduce((n, w) => n + (title.includes(w) ? 100 : 0) + Math.min(text.split(w).length, 20), 0);
      const at = Math.max(0, text.indexOf(words.find((w) => text.includes(w)) ?? ""));
      hits.push({ page, score, excerpt: page.text.slice(Math.max(0, at - 40), at + 100) });
    }
    hits.sort((a, b) => b.score - a.score);
    found.replaceChildren(...hits.slice(0, 8).map(({ page, excerpt }) => {
      const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("span");
      link.href = root + page.url;
      link.textContent = page.title;
      text.textContent = excerpt;
      link.append(text);
      item.append(link);
      return item;
    }));
    found.hidden = hits.length === 0;
  };

  // On a narrow screen the list of documents would hide the document.
  if (matchMedia("(max-width: 48rem)").matches) document.querySelector("nav details").open = false;

  input.addEventListener("focus", load, { once: true });
  input.addEventListener("input", show);
  document.addEventListener("click", (e) => { if (!e.target.closest(".search")) found.hidden = true; });
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && document.activeElement !== input) { e.preventDefault(); input.focus(); }
    if (e.key === "Escape") found.hidden = true;
  });
})();
