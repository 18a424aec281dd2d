'use strict';
(() => {
  const report = JSON.parse(document.getElementById('report-data').textContent);
  const $ = (id) => document.getElementById(id);
  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ---- light and dark: the system's wish, until the reader has one of his own
  const system = window.matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  const applyTheme = () => {
    document.documentElement.dataset.theme = chosen || (system.matches ? 'dark' : 'light');
  };
  applyTheme();

  // ---- numbers
  // Four digits, or as many as tell values apart that are spread over `span`.
  const shown = (value, span) => {
    if (value === null || value === undefined) return '–';
    const size = Math.abs(value);
    if (size === 0) return '0';
    const digits = span > 0 && span < size ? Math.min(15, Math.ceil(Math.log10(size / span)) + 3) : 4;
    if (digits > 5) return Number(value.toPrecision(digits)).toLocaleString('en', {maximumFractionDigits: 12});
    if (size >= 1e4) {
      const [scale, unit] = size >= 1e12 ? [1e12, 'T'] : size >= 1e9 ? [1e9, 'B'] : size >= 1e6 ? [1e6, 'M'] : [1e3, 'k'];
      return Number((value / scale).toPrecision(digits)) + unit;
    }
    if (size < 1e-3) {
      const [mantissa, exponent] = value.toExponential(2).split('e');
      return `${Number(mantissa)}e${exponent.replace('-', '−')}`;
    }
    return String(Number(value.toPrecision(digits)));
  };

  // Seconds since 1970 as what a row is: a year, a quarter, a month, a day; else with the hour, where the axis is narrower
  // than a month.
  const dated = (seconds, span, unit) => {
    const date = new Date(seconds * 1000), text = date.toISOString();
    if (unit === 'year') return text.slice(0, 4);
    if (unit === 'quarter') return `${text.slice(0, 4)} Q${Math.floor(date.getUTCMonth() / 3) + 1}`;
    if (unit === 'month') return text.slice(0, 7);
    return unit === 'day' || span > 31 * 86400 ? text.slice(0, 10) : text.slice(0, 16).replace('T', ' ');
  };
  // The beginning of a month as the month, where the axis is longer than a quarter; that of a day as the day.
  const datedTick = (seconds, span, unit) => {
    const text = dated(seconds, span, unit);
    if (span > 92 * 86400 && text.endsWith('-01')) return text.slice(0, 7);
    return text.endsWith(' 00:00') ? text.slice(0, 10) : text;
  };

  // Round moments, a label's width apart at least: hours, days, Mondays, the beginnings of months and years.
  // None between rows, where those are days, months or longer.
  const dateTicks = (low, high, width, unit) => {
    const day = 86400, monday = 4 * day;  // the first after 1970 began
    const apart = (label) => (high - low) * label / Math.max(width, 2 * label);  // in seconds
    const label = {year: 50, quarter: 75, month: 70}[unit] || 92, hours = 135;
    const wanted = apart(label);
    const ticks = [];
    const least = {month: 1, quarter: 3, year: 12}[unit] || 0;
    const step = least === 0 && [60, 300, 900, 3600, 10800, 21600, 43200, day, 2 * day, 3 * day, 4 * day, 7 * day, 14 * day]
      .find((s) => s >= (s < day ? apart(hours) : wanted) && (unit !== 'day' || s >= day));
    if (step) {
      const start = step % (7 * day) === 0 ? monday : 0;
      for (let at = start + Math.ceil((low - start) / step) * step; at <= high; at += step) ticks.push({value: at});
      return ticks;
    }
    const months = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600].find((m) => m >= least && m * 30.4 * day >= wanted) || 1200;
    const first = new Date(low * 1000);
    const began = (month) => Date.UTC(1970, month - 12 * 1970) / 1000;  // months since the year 0
    for (let at = Math.ceil((12 * first.getUTCFullYear() + first.getUTCMonth()) / months) * months; began(at) <= high; at += months) {
      if (began(at) >= low) ticks.push({value: began(at)});
    }
    return ticks;
  };

  // Some `about` round values between two: steps of 1, 2 or 5 and zeros.
  const roundValues = (low, high, about) => {
    const wanted = (high - low) / about, values = [];
    if (!(wanted > 0) || !Number.isFinite(wanted)) return [low];
    const unit = 10 ** Math.floor(Math.log10(wanted));
    const step = unit * ([1, 2, 5].find((s) => s * unit >= wanted) || 10);
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i++) values.push(i * step);
    return values;
  };
  // Of an axis that begins and ends with its data, where Chart.js would count from the first value.
  const roundTicks = (scale) => roundValues(scale.min, scale.max, Math.max(2, scale.width / 90)).map((value) => ({value}));

  // Round values of a logarithmic axis: powers of ten where there are many, 1, 2, 5 or all round steps where there are few.
  // Chart.js's own ticks crowd into the upper half of each decade.
  const logTicks = (low, high) => {
    const decades = Math.log10(high / low);
    if (!(decades > 0) || !Number.isFinite(decades)) return [{value: low}];
    let values = [];
    if (decades < 0.7) {
      values = roundValues(low, high, 5);
    } else {
      const factors = decades < 2 ? [1, 2, 5] : decades < 4 ? [1, 3] : [1];
      const every = Math.ceil(decades / 8);
      for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) {
        if (e % every === 0) values.push(...factors.map((f) => Number(`${f}e${e}`)));
      }
    }
    return values.filter((v) => v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)).map((value) => ({value}));
  };

  // ---- words
  $('title').textContent = report.title;
  $('subtitle').textContent = report.subtitle;
  $('subtitle').hidden = !report.subtitle;
  for (const figure of report.figures) {
    const card = make('div', 'figure card');
    const value = make('div', 'value');
    const [, number, unit] = /^([-−\d.,]+[kMBT]?) (\D.*)$/.exec(figure.value) || [null, figure.value, ''];
    value.append(number);
    if (unit) value.append(' ', make('span', 'unit', unit));
    card.append(make('div', 'label', figure.label), value, make('div', 'note', figure.note));
    $('figures').append(card);
  }
  $('figures').hidden = report.figures.length === 0;
  for (const sample of report.samples) {
    const item = make('li', 'sample');
    const when = make('div', 'when');
    when.append(make('b', '', `step ${sample.step.toLocaleString('en')}`), sample.caption);
    const text = make('pre', 'card');
    if (sample.prompt) text.append(make('span', 'prompt', sample.prompt));
    text.append(sample.text);
    item.append(when, text);
    $('samples').append(item);
  }
  $('samples-section').hidden = report.samples.length === 0;
  const tableCard = (title, className) => {
    const card = make('div', `table card ${className}`);
    card.append(make('h2', '', title));
    $('tables').append(card);
    return card;
  };
  const rowOf = (cells, tag) => {
    const row = make('tr');
    row.append(...cells.map((text) => make(tag, text.length > 40 ? 'long' : '', text)));
    return row;
  };
  const pairs = (rows) => {
    const table = make('table');
    table.append(...rows.map((row) => rowOf(row, 'td')));
    return table;
  };
  // Numbers by size, those with a unit too, then words; what is empty or a dash comes last either way.
  const sortable = (text) => {
    if (text === '' || text === '–' || text === '-') return null;
    const [, digits, unit] = /^([-−]?[\d.]+(?:e[-+−]?\d+)?) ?([kMBT%]?)$/.exec(text) || [null, text, ''];
    const number = Number(digits.replaceAll('−', '-'));
    return Number.isNaN(number) ? text : number * ({k: 1e3, M: 1e6, B: 1e9, T: 1e12}[unit] || 1);
  };
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return sign * (typeof a === 'number' ? -1 : 1);
    return sign * (a < b ? -1 : a > b ? 1 : 0);
  };
  for (const {title, columns, rows, best} of report.tables) {
    const card = tableCard(title, 'wide');
    const table = make('table'), head = make('thead'), body = make('tbody');
    const header = rowOf(columns, 'th');
    let order = {column: -1, sign: 1};
    const bodyRow = (cells) => {
      const row = rowOf(cells, 'td');
      if (best.includes(rows.indexOf(cells))) {
        row.className = 'best';
        row.firstElementChild.append(' ', make('span', 'mark', 'best'));
      }
      return row;
    };
    const fillBody = () => {
      const sorted = [...rows];
      if (order.column >= 0) sorted.sort((a, b) => compare(sortable(a[order.column]), sortable(b[order.column]), order.sign));
      body.replaceChildren(...sorted.map(bodyRow));
    };
    [...header.children].forEach((cell, column) => {
      if (rows.length < 2) return;
      const button = make('button', 'sort', cell.textContent);
      button.type = 'button';
      button.title = 'Sort by this column';
      button.addEventListener('click', () => {
        order = {column, sign: order.column === column ? -order.sign : 1};
        for (const other of header.children) other.removeAttribute('aria-sort');
        cell.setAttribute('aria-sort', order.sign > 0 ? 'ascending' : 'descending');
        fillBody();
      });
      cell.replaceChildren(button);
    });
    head.append(header);
    table.append(head, body);
    fillBody();
    card.append(table);
  }
  if (report.commands.length > 0) {
    const card = tableCard('Next', 'wide');
    for (const [purpose, command] of report.commands) {
      const line = make('div', 'command');
      const copy = make('button', '', 'copy');
      copy.type = 'button';
      copy.addEventListener('click', () => navigator.clipboard?.writeText(command));
      line.append(make('pre', '', command), copy);
      card.append(make('p', '', purpose), line);
    }
  }
  if (report.config.length + report.defaults.length > 0) {
    const card = tableCard(report.configTitle || 'Configuration', '');
    card.append(pairs(report.config));
    if (report.defaults.length > 0) {
      const folded = make('details');
      folded.append(make('summary', '', `${report.defaults.length} more have their defaults`), pairs(report.defaults));
      card.append(folded);
    }
  }
  if (report.environment.length > 0) tableCard('Machine and build', '').append(pairs(report.environment));

  // ---- charts
  // Running mean over what came before, corrected for its start (as Adam does): it begins at the first value.
  const smoothed = (ys, weight) => {
    let mean = 0, sum = 0;
    return ys.map((y) => {
      if (y === null) return null;
      mean = mean * weight + y * (1 - weight);
      sum = sum * weight + (1 - weight);
      return mean / sum;
    });
  };
  const points = (series, ys) => series.x.map((x, i) => ({x, y: ys[i]}));
  const withAlpha = (color, alpha) => color + Math.round(alpha * 255).toString(16).padStart(2, '0');

  const charts = [];
  let hover = null;  // the x under the pointer, shown in every chart whose axis has the same name
  const crosshair = {
    id: 'crosshair',
    beforeDatasetsDraw(chart) {
      if (hover === null || chart.$spec.x !== hover.axis) return;
      const {ctx, chartArea: area, scales: {x}} = chart;
      const at = x.getPixelForValue(hover.x);
      if (at < area.left || at > area.right) return;
      ctx.save();
      ctx.strokeStyle = css('--faint');
      ctx.setLineDash([3, 3]);
      ctx.beginPath();
      ctx.moveTo(at, area.top);
      ctx.lineTo(at, area.bottom);
      ctx.stroke();
      ctx.restore();
    },
  };

  const selection = {
    id: 'selection',
    afterDatasetsDraw(chart) {
      if (!chart.$drag) return;
      const {ctx, chartArea: area} = chart;
      ctx.save();
      ctx.fillStyle = withAlpha(css('--s0'), 0.15);
      ctx.fillRect(chart.$drag[0], area.top, chart.$drag[1] - chart.$drag[0], area.bottom - area.top);
      ctx.restore();
    },
  };

  // Of every visible curve the point nearest to the pointer's x, however sparse the curve is.
  Chart.Interaction.modes.nearestOfEach = (chart, event) => {
    const x = chart.scales.x.getValueForPixel(event.x);
    return chart.getSortedVisibleDatasetMetas().filter((meta) => !chart.data.datasets[meta.index].$raw).map((meta) => {
      const data = chart.data.datasets[meta.index].data;
      let best = -1;
      data.forEach((point, i) => {
        if (point.y !== null && (best < 0 || Math.abs(point.x - x) < Math.abs(data[best].x - x))) best = i;
      });
      return {element: meta.data[best], datasetIndex: meta.index, index: best};
    }).filter((item) => item.element).sort((a, b) => a.datasetIndex - b.datasetIndex);
  };

  // Beside the pointer: the mean of the points, Chart.js's own choice, lies on the curves.
  Chart.Tooltip.positioners.pointer = (items, event) => ({x: event.x, y: event.y});

  const axis = (title, extra) => ({
    title: {display: Boolean(title), text: title},
    ticks: {callback(value) { return shown(value, this.max - this.min); }, maxTicksLimit: 8, maxRotation: 0},
    afterBuildTicks: (scale) => { if (scale.type === 'logarithmic') scale.ticks = logTicks(scale.min, scale.max); },
    grid: {},
    ...extra,
  });

  // Points and bars take their colours when the chart is made; paint() follows the theme.
  const colors = (number) => {
    const color = css(`--s${number % 16}`);
    return {backgroundColor: color, pointBackgroundColor: color, pointBorderColor: color};
  };
  const buildBars = (spec, canvas) => {
    const chart = new Chart(canvas, {
      type: 'bar',
      data: {labels: spec.bars, datasets: [{label: spec.series[0].name, $number: 0, $color: 0, $series: spec.series[0], $bars: true,
                                            ...colors(0), borderRadius: 4, maxBarThickness: 28}]},
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, indexAxis: 'y',
        scales: {x: axis(spec.x, {type: 'linear', beginAtZero: true}), y: {grid: {}, title: {}, ticks: {}}},
        plugins: {
          legend: {display: false},
          tooltip: {displayColors: false, callbacks: {label: (item) => `${shown(item.raw)} ${spec.x}`}},
        },
      },
    });
    chart.$spec = spec;
    return chart;
  };

  const build = (spec, index) => {
    const card = make('div', 'chart card' + (index === 0 || report.charts.length === 1 ? ' wide' : ''));
    const head = make('div', 'chart-head');
    const legend = make('div', 'legend');
    const box = make('div', 'canvas-box');
    const canvas = make('canvas');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${spec.title}: ${[...new Set(spec.series.map((s) => s.name))].join(', ')} over ${spec.x}`);
    head.append(make('h3', '', spec.title), legend);
    box.append(canvas);
    card.append(head, box);
    $('charts').append(card);
    legend.hidden = spec.series.length < 2;  // its name would repeat the title
    if (spec.bars.length > 0) return buildBars(spec, canvas);

    // Both edges of a band have one colour, a thin line, and one place in the legend and beside the pointer.
    const upperEdge = (number) => number > 0 && spec.series[number - 1].band;
    const colorOf = (number) => (upperEdge(number) ? number - 1 : number);
    const unit = spec.unit || (spec.dates && spec.series.every((line) => line.x.every((at) => at % 86400 === 0)) ? 'day' : '');
    const shownX = (x, scale) => (spec.categories.length > 0 ? (i) => spec.categories[i] : spec.dates ? dated : shown)(x, scale ? scale.max - scale.min : 0, unit);
    const datasets = [];
    spec.series.forEach((series, number) => {
      const base = {
        label: series.name, $series: series, $number: number, $color: colorOf(number), parsing: false, pointRadius: 0, pointHitRadius: 0,
        yAxisID: series.right ? 'right' : 'y', spanGaps: false, borderJoinStyle: 'round', ...colors(colorOf(number)),
        pointHoverRadius: series.x.length > 2 ? 4 : 0, pointHoverBorderWidth: 2,
      };
      if (series.smooth) datasets.push({...base, $raw: true, borderWidth: 1, pointHoverRadius: 0, order: 2});
      // A curve of one point would not be seen at all.
      const radius = series.points || series.x.length === 1 ? 3 : 0;
      datasets.push({...base, borderWidth: series.band || upperEdge(number) ? 0.8 : series.dashed ? 1.6 : 2.2, borderDash: series.dashed ? [6, 5] : [],
                     pointRadius: radius, showLine: !series.points, fill: series.band ? '+1' : false, order: 1});
    });
    const chart = new Chart(canvas, {
      type: 'line',
      data: {datasets},
      plugins: [crosshair, selection],
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, normalized: true,
        interaction: {mode: 'nearestOfEach', intersect: false},
        scales: {
          x: axis(spec.x, {
            type: spec.logX ? 'logarithmic' : 'linear', bounds: 'data',
            ...(!spec.logX && {afterBuildTicks: (scale) => { scale.ticks = roundTicks(scale); }}),
            ...(spec.categories.length > 0 && {
              min: -0.5, max: spec.categories.length - 0.5,
              ticks: {callback: (value) => spec.categories[value] ?? '', maxRotation: 30, autoSkip: false},
              afterBuildTicks: (scale) => { scale.ticks = spec.categories.map((_, value) => ({value})); },
            }),
            ...(spec.wholeX && {
              afterBuildTicks: (scale) => {
                const whole = scale.type === 'logarithmic' ? logTicks(scale.min, scale.max) : roundTicks(scale);
                scale.ticks = whole.filter((tick) => Number.isInteger(tick.value));
              },
            }),
            ...(spec.dates && {
              ticks: {callback(value) { return datedTick(value, this.max - this.min, unit); }, maxRotation: 0},
              afterBuildTicks: (scale) => { scale.ticks = dateTicks(scale.min, scale.max, scale.width, unit); },
            }),
          }),
          y: axis(spec.y, {type: spec.log ? 'logarithmic' : 'linear'}),
          ...(spec.series.some((s) => s.right) &&
              {right: axis(spec.right, {type: 'linear', position: 'right', beginAtZero: true})}),
        },
        plugins: {
          legend: {display: false},
          tooltip: {
            mode: 'nearestOfEach', position: 'pointer', caretSize: 0, caretPadding: 16, padding: 10, cornerRadius: 8,
            usePointStyle: true, boxWidth: 8, boxHeight: 8,
            filter: (item) => !upperEdge(item.dataset.$number),
            callbacks: {
              title: (items) => {
                if (items.length === 0) return '';
                // A curve that ends before the pointer says so in its own line.
                const away = (item) => (hover === null ? 0 : Math.abs(item.raw.x - hover.x));
                const nearest = items.reduce((best, item) => (away(item) < away(best) ? item : best));
                return `${spec.dates ? '' : spec.x || 'x'} ${shownX(nearest.raw.x)}`;
              },
              label: (item) => {
                const series = item.dataset.$series;
                const {max, min} = item.chart.scales[item.dataset.yAxisID];
                const raw = series.smooth && smoothing > 0 ? ` (unsmoothed ${shown(series.y[item.dataIndex], max - min)})` : '';
                const moved = hover !== null && series.x.length > 2 && Math.abs(item.raw.x - hover.x) > hover.near;
                const high = series.band ? ` to ${shown(spec.series[item.dataset.$number + 1].y[item.dataIndex], max - min)}` : '';
                return ` ${series.name}  ${shown(item.raw.y, max - min)}${high}${raw}${moved ? `, at ${shownX(item.raw.x)}` : ''}`;
              },
              labelPointStyle: () => ({pointStyle: 'circle', rotation: 0}),
            },
          },
        },
      },
    });
    chart.$spec = spec;
    spec.series.forEach((series, number) => {
      if (upperEdge(number)) return;
      const button = make('button', series.dashed ? 'dashed' : '', series.name);
      button.type = 'button';
      button.style.setProperty('--swatch', `var(--s${colorOf(number) % 16})`);
      button.setAttribute('aria-pressed', 'true');
      button.addEventListener('click', () => {
        const visible = button.getAttribute('aria-pressed') !== 'true';
        button.setAttribute('aria-pressed', String(visible));
        chart.data.datasets.forEach((d, i) => { if (d.$color === number) chart.setDatasetVisibility(i, visible); });
        chart.update('none');
      });
      legend.append(button);
    });
    if (spec.series.some((s) => !s.right && s.y.some((y) => y > 0))) {
      const scale = make('button');
      scale.type = 'button';
      const label = () => { scale.textContent = chart.options.scales.y.type === 'linear' ? 'linear' : 'log'; };
      scale.title = 'Switch the scale between linear and logarithmic';
      scale.addEventListener('click', () => {
        chart.options.scales.y.type = chart.options.scales.y.type === 'linear' ? 'logarithmic' : 'linear';
        label();
        chart.update('none');
      });
      label();
      head.append(scale);
    }
    // Dragging over a chart zooms into what was dragged over; a double click shows all again.
    let from = null;
    const zoom = (low, high) => {
      Object.assign(chart.options.scales.x, {min: low, max: high});
      chart.$drag = null;
      chart.update('none');
    };
    canvas.title = 'Drag to zoom, double click to see all';
    canvas.addEventListener('mousedown', (event) => { from = event.offsetX; });
    canvas.addEventListener('dblclick', () => zoom(undefined, undefined));
    window.addEventListener('mouseup', (event) => {
      const to = event.clientX - canvas.getBoundingClientRect().left;
      if (from !== null && Math.abs(to - from) > 8) {
        const [low, high] = [from, to].sort((a, b) => a - b).map((pixel) => chart.scales.x.getValueForPixel(pixel));
        zoom(Math.max(low, chart.scales.x.min), Math.min(high, chart.scales.x.max));
      }
      from = null;
      chart.$drag = null;
    });
    canvas.addEventListener('mousemove', (event) => {
      chart.$drag = from !== null ? [from, event.offsetX] : null;
      const x = chart.scales.x.getValueForPixel(event.offsetX);
      hover = {x, axis: spec.x, near: (chart.scales.x.max - chart.scales.x.min) / 200};
      for (const other of charts) other.draw();
    });
    canvas.addEventListener('mouseleave', () => {
      hover = null;
      for (const other of charts) other.draw();
    });
    return chart;
  };

  const paint = (chart) => {
    const grid = css('--grid'), soft = css('--soft'), faint = css('--faint');
    for (const dataset of chart.data.datasets) {
      const color = css(`--s${dataset.$color % 16}`);
      const faintLine = dataset.$raw ? (smoothing > 0 ? 0.28 : 0) : 1;
      Object.assign(dataset, colors(dataset.$color));
      dataset.borderColor = withAlpha(color, faintLine);
      dataset.pointHoverBackgroundColor = color;
      dataset.pointHoverBorderColor = css('--surface');
      dataset.backgroundColor = dataset.fill ? withAlpha(color, 0.16) : color;
    }
    for (const scale of Object.values(chart.options.scales)) {
      scale.ticks.color = faint;
      scale.title.color = soft;
      scale.grid.color = grid;
      scale.grid.borderColor = css('--line');
      scale.grid.tickColor = 'transparent';
    }
    if (chart.options.scales.right) chart.options.scales.right.grid.drawOnChartArea = false;
    Object.assign(chart.options.plugins.tooltip, {
      backgroundColor: css('--surface'), titleColor: css('--ink'), bodyColor: css('--soft'),
      borderColor: css('--line'), borderWidth: 1,
    });
  };
  const fill = (chart) => {
    for (const dataset of chart.data.datasets) {
      const series = dataset.$series;
      dataset.data = dataset.$bars ? series.y : points(series, series.smooth && !dataset.$raw ? smoothed(series.y, smoothing) : series.y);
    }
  };
  let smoothing = Number($('smoothing').value);
  const refresh = () => {
    for (const chart of charts) {
      fill(chart);
      paint(chart);
      chart.update('none');
    }
  };

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 12;
  report.charts.forEach((spec, index) => charts.push(build(spec, index)));
  $('charts').hidden = charts.length === 0;
  // An odd chart out at the end of two columns takes both.
  if (charts.length > 1 && charts.length % 2 === 0) $('charts').lastElementChild.classList.add('wide');
  $('smoothing-label').hidden = !report.charts.some((chart) => chart.series.some((s) => s.smooth));
  refresh();

  /*{{space}}*/

  const redraw = () => { for (const draw of report.redraw || []) draw(); };
  redraw();
  window.addEventListener('resize', redraw);

  $('smoothing').addEventListener('input', () => {
    smoothing = Number($('smoothing').value);
    refresh();
  });
  $('theme').addEventListener('click', () => {
    chosen = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    applyTheme();
    refresh();
    redraw();
  });
  system.addEventListener('change', () => {
    applyTheme();
    refresh();
    redraw();
  });
})();
