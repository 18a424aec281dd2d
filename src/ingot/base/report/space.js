// Parallel coordinates, and a contour over two axes that the reader chooses, of report.space.
(() => {
  const {axes, points, value: valueName, lower} = report.space || {axes: [], points: []};
  if (axes.length === 0 || points.length < 2) return;
  const better = (a, b) => (lower ? a - b : b - a);
  const ranked = [...points].sort((a, b) => better(a.value, b.value));
  const rank = new Map(ranked.map((point, i) => [point, 1 - i / (ranked.length - 1)]));  // 1: the best

  // A place from 0 to 1 on an axis, as its scale has it.
  const scaleOf = (axis, values) => {
    const known = values.filter((v) => v !== null && (!axis.log || v > 0));
    const warp = axis.log ? Math.log : (v) => v;
    let [low, high] = axis.categories.length > 0 ? [-0.5, axis.categories.length - 0.5] : [warp(Math.min(...known)), warp(Math.max(...known))];
    if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
    const place = (v) => (warp(v) - low) / (high - low);
    const at = (share) => (axis.log ? Math.exp : (v) => v)(low + share * (high - low));
    const text = (v) => (axis.categories.length > 0 ? axis.categories[Math.round(v)] : axis.whole ? String(Math.round(v)) : shown(v));
    const span = at(1) - at(0);
    const ticks = axis.categories.length > 0 ? axis.categories.map((_, i) => i)
      : axis.whole && span <= 6 ? Array.from({length: Math.round(span) + 1}, (_, i) => Math.round(at(0)) + i)
      : [0, 0.25, 0.5, 0.75, 1].map(at);
    return {place, at, text, ticks: [...new Map(ticks.map((v) => [text(v), v])).values()]};
  };
  const scales = axes.map((axis, i) => scaleOf(axis, points.map((p) => p.at[i])));
  const values = points.map((p) => p.value);

  const card = (title, controls) => {
    const box = make('div', 'chart card wide');
    const head = make('div', 'chart-head');
    const scroll = make('div', 'space-scroll');
    const canvas = make('canvas', 'space');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', title);
    head.append(make('h3', '', title), ...controls);
    scroll.append(canvas);
    box.append(head, scroll);
    $('charts').append(box);
    $('charts').hidden = false;
    return {canvas, scroll};
  };
  // A canvas of so many CSS pixels, sharp on every screen.
  const context = (canvas, width, height) => {
    const ratio = window.devicePixelRatio || 1;
    Object.assign(canvas, {width: width * ratio, height: height * ratio});
    Object.assign(canvas.style, {width: `${width}px`, height: `${height}px`});
    const ctx = canvas.getContext('2d');
    ctx.scale(ratio, ratio);
    ctx.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    return ctx;
  };
  const clipped = (ctx, text, width) => {
    if (ctx.measureText(text).width <= width) return text;
    let end = text.length;
    while (end > 1 && ctx.measureText(text.slice(0, end) + '…').width > width) end--;
    return text.slice(0, end) + '…';
  };

  // ---- parallel coordinates: one line a point, the best ones on top
  const parallel = card('All together', [make('span', 'hint', `a line is a trial; strong lines have the ${lower ? 'lowest' : 'highest'} ${valueName}`)]);
  const columns = [...axes.map((axis, i) => ({name: axis.name, scale: scales[i], of: (p) => p.at[i]})),
                   {name: valueName, scale: scaleOf({categories: []}, values), of: (p) => p.value}];
  let marked = null;
  const drawParallel = () => {
    const width = Math.max(parallel.scroll.clientWidth, 96 * columns.length), height = 320;
    const ctx = context(parallel.canvas, width, height);
    const top = 34, bottom = height - 14, left = 76, right = width - 64;
    const xs = columns.map((_, i) => left + i * (right - left) / (columns.length - 1));
    const y = (column, point) => bottom - column.scale.place(column.of(point)) * (bottom - top);
    const line = (point, color, alpha, thick) => {
      ctx.beginPath();
      let pen = false;  // a parameter that a point does not have leaves a gap
      columns.forEach((column, i) => {
        if (column.of(point) === null) { pen = false; return; }
        if (pen) ctx.lineTo(xs[i], y(column, point)); else ctx.moveTo(xs[i], y(column, point));
        pen = true;
      });
      Object.assign(ctx, {strokeStyle: color, globalAlpha: alpha, lineWidth: thick});
      ctx.stroke();
      ctx.globalAlpha = 1;
    };
    for (const point of [...ranked].reverse()) {
      const share = rank.get(point);
      line(point, css('--s0'), 0.06 + 0.74 * share ** 4, 1 + share ** 8);
    }
    if (marked) line(marked, css('--s1'), 1, 2.5);
    columns.forEach((column, i) => {
      ctx.strokeStyle = css('--faint');
      ctx.beginPath();
      ctx.moveTo(xs[i], top);
      ctx.lineTo(xs[i], bottom);
      ctx.stroke();
      Object.assign(ctx, {fillStyle: css('--ink'), textAlign: 'center'});
      ctx.fillText(clipped(ctx, column.name, (right - left) / (columns.length - 1) - 8), xs[i], 14);
      Object.assign(ctx, {fillStyle: css('--soft'), textAlign: i + 1 < columns.length ? 'right' : 'left'});
      for (const tick of column.scale.ticks) {
        const text = clipped(ctx, column.scale.text(tick), 64);
        ctx.fillText(text, xs[i] + (i + 1 < columns.length ? -5 : 5), bottom - column.scale.place(tick) * (bottom - top) + 4);
      }
    });
    if (marked) {
      Object.assign(ctx, {fillStyle: css('--s1'), textAlign: 'right'});
      ctx.fillText(`${marked.name}: ${shown(marked.value)}`, width - 4, 14 + 14);
    }
    parallel.nearest = (px, py) => {
      const i = Math.max(0, xs.findIndex((x) => Math.abs(x - px) <= (xs[1] - xs[0]) / 2));
      const there = points.filter((p) => columns[i].of(p) !== null);
      const away = (p) => Math.abs(y(columns[i], p) - py);
      const best = there.reduce((a, b) => (away(b) < away(a) ? b : a), there[0]);
      return best && away(best) < 12 ? best : null;
    };
  };
  parallel.canvas.addEventListener('mousemove', (event) => {
    const found = parallel.nearest(event.offsetX, event.offsetY);
    if (found !== marked) { marked = found; drawParallel(); }
  });
  parallel.canvas.addEventListener('mouseleave', () => { marked = null; drawParallel(); });

  // ---- contour: means of the points' values, weighted by nearness, in bands
  const numbered = axes.map((axis, i) => i).filter((i) => points.some((p) => p.at[i] !== null));
  if (numbered.length < 2) { report.redraw = [drawParallel]; return; }
  const choose = (label, chosen) => {
    const select = make('select');
    select.setAttribute('aria-label', label);
    for (const i of numbered) {
      const option = make('option', '', axes[i].name);
      option.value = i;
      option.selected = i === chosen;
      select.append(option);
    }
    select.addEventListener('change', () => drawContour());
    return select;
  };
  const across = choose('horizontal axis', numbered[0]), up = choose('vertical axis', numbered[1]);
  const contour = card('Two at a time', [across, make('span', 'hint', 'and'), up,
                                         make('span', 'hint', `strong: ${lower ? 'low' : 'high'} ${valueName}; dots: trials; ring: the best`)]);
  const kBands = 9;
  const drawContour = () => {
    const width = contour.scroll.clientWidth, height = 340;
    const ctx = context(contour.canvas, width, height);
    const left = 74, right = width - 34, top = 10, bottom = height - 40;
    const [a, b] = [Number(across.value), Number(up.value)];
    const there = points.filter((p) => p.at[a] !== null && p.at[b] !== null);
    const places = there.map((p) => [scales[a].place(p.at[a]), scales[b].place(p.at[b]), rank.get(p)]);
    const cols = Math.max(8, Math.round((right - left) / 8)), rows = Math.round((bottom - top) / 8);
    const mean = (x, y) => {
      let sum = 0, weights = 0;
      for (const [px, py, value] of places) {
        const near = 1 / (((x - px) ** 2 + (y - py) ** 2) ** 1.5 + 1e-5);
        sum += near * value;
        weights += near;
      }
      return sum / weights;
    };
    ctx.fillStyle = css('--s0');
    for (let i = 0; places.length > 0 && i < cols; i++) {
      for (let j = 0; j < rows; j++) {
        const band = Math.round(mean((i + 0.5) / cols, (j + 0.5) / rows) * kBands) / kBands;
        ctx.globalAlpha = 0.04 + 0.72 * band;
        const [x0, x1] = [i, i + 1].map((k) => Math.round(left + k * (right - left) / cols));
        const [y0, y1] = [j + 1, j].map((k) => Math.round(bottom - k * (bottom - top) / rows));
        ctx.fillRect(x0, y0, x1 - x0, y1 - y0);
      }
    }
    ctx.globalAlpha = 1;
    const dot = (point, radius, fill) => {
      const [x, y] = [left + scales[a].place(point.at[a]) * (right - left), bottom - scales[b].place(point.at[b]) * (bottom - top)];
      ctx.beginPath();
      ctx.arc(x, y, radius, 0, 2 * Math.PI);
      if (fill) ctx.fill(); else ctx.stroke();
    };
    ctx.fillStyle = css('--ink');
    for (const point of there) dot(point, 2.2, true);
    const best = ranked.find((p) => there.includes(p));
    if (best) {
      Object.assign(ctx, {strokeStyle: css('--s1'), lineWidth: 2.5});
      dot(best, 7, false);
    }
    ctx.fillStyle = css('--soft');
    let used = -Infinity;  // labels of a narrow screen would run into each other
    for (const tick of scales[a].ticks) {
      const text = clipped(ctx, scales[a].text(tick), 90), half = ctx.measureText(text).width / 2;
      const at = left + scales[a].place(tick) * (right - left);
      if (at - half < used) continue;
      ctx.textAlign = 'center';
      ctx.fillText(text, at, bottom + 16);
      used = at + half + 8;
    }
    for (const tick of scales[b].ticks) {
      ctx.textAlign = 'right';
      ctx.fillText(clipped(ctx, scales[b].text(tick), left - 10), left - 6, bottom - scales[b].place(tick) * (bottom - top) + 4);
    }
    Object.assign(ctx, {textAlign: 'center', fillStyle: css('--ink')});
    ctx.fillText(axes[a].name, (left + right) / 2, height - 6);
  };
  report.redraw = [drawParallel, drawContour];
})();
