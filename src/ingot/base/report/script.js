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
  const shown = (value) => {
    if (value === null || value === undefined) return '–';
    const size = Math.abs(value);
    if (size === 0) return '0';
    if (size >= 1e4) {
      const [scale, unit] = size >= 1e12 ? [1e12, 'T'] : size >= 1e9 ? [1e9, 'B'] : size >= 1e6 ? [1e6, 'M'] : [1e3, 'k'];
      return Number((value / scale).toPrecision(4)) + unit;
    }
    if (size < 1e-3) {
      const [mantissa, exponent] = value.toExponential(2).split('e');
      return `${Number(mantissa)}e${exponent.replace('-', '−')}`;
    }
    return String(Number(value.toPrecision(4)));
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
  for (const [title, rows] of [['Configuration', report.config], ['Machine and build', report.environment]]) {
    if (rows.length === 0) continue;
    const card = make('div', 'table card');
    const table = make('table');
    for (const [key, value] of rows) {
      const row = make('tr');
      row.append(make('td', '', key), make('td', '', value));
      table.append(row);
    }
    card.append(make('h2', '', title), table);
    $('tables').append(card);
  }

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
    ticks: {callback: (value) => shown(value), maxTicksLimit: 8, maxRotation: 0},
    grid: {},
    ...extra,
  });

  const build = (spec, index) => {
    const card = make('div', 'chart card' + (index === 0 || report.charts.length === 1 ? ' wide' : ''));
    const head = make('div', 'chart-head');
    const legend = make('div', 'legend');
    const box = make('div', 'canvas-box');
    const canvas = make('canvas');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${spec.title}: ${spec.series.map((s) => s.name).join(', ')} over ${spec.x}`);
    head.append(make('h3', '', spec.title), legend);
    box.append(canvas);
    card.append(head, box);
    $('charts').append(card);

    const datasets = [];
    spec.series.forEach((series, number) => {
      const base = {
        label: series.name, $series: series, $number: number, parsing: false, pointRadius: 0, pointHitRadius: 0,
        yAxisID: series.right ? 'right' : 'y', spanGaps: false, borderJoinStyle: 'round',
        pointHoverRadius: series.x.length > 2 ? 4 : 0, pointHoverBorderWidth: 2,
      };
      if (series.smooth) datasets.push({...base, $raw: true, borderWidth: 1, pointHoverRadius: 0, order: 2});
      // A curve of one point would not be seen at all.
      const radius = series.x.length === 1 ? 3 : 0;
      datasets.push({...base, borderWidth: series.dashed ? 1.6 : 2.2, borderDash: series.dashed ? [6, 5] : [],
                     pointRadius: radius, order: 1});
    });
    const chart = new Chart(canvas, {
      type: 'line',
      data: {datasets},
      plugins: [crosshair],
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, normalized: true,
        interaction: {mode: 'nearestOfEach', intersect: false},
        scales: {
          x: axis(spec.x, {type: 'linear', bounds: 'data'}),
          y: axis(spec.y, {type: spec.log ? 'logarithmic' : 'linear'}),
          ...(spec.series.some((s) => s.right) &&
              {right: axis(spec.right, {type: 'linear', position: 'right', beginAtZero: true})}),
        },
        plugins: {
          legend: {display: false},
          tooltip: {
            mode: 'nearestOfEach', position: 'pointer', caretSize: 0, caretPadding: 16, padding: 10, cornerRadius: 8,
            usePointStyle: true, boxWidth: 8, boxHeight: 8,
            callbacks: {
              title: (items) => items.length ? `${spec.x || 'x'} ${shown(items[0].raw.x)}` : '',
              label: (item) => {
                const series = item.dataset.$series;
                const raw = series.smooth && smoothing > 0 ? ` (unsmoothed ${shown(series.y[item.dataIndex])})` : '';
                const moved = hover !== null && series.x.length > 2 && Math.abs(item.raw.x - hover.x) > hover.near;
                return ` ${series.name}  ${shown(item.raw.y)}${raw}${moved ? `, at ${shown(item.raw.x)}` : ''}`;
              },
              labelPointStyle: () => ({pointStyle: 'circle', rotation: 0}),
            },
          },
        },
      },
    });
    chart.$spec = spec;
    legend.hidden = spec.series.length < 2;  // its name would repeat the title
    spec.series.forEach((series, number) => {
      const button = make('button', series.dashed ? 'dashed' : '', series.name);
      button.type = 'button';
      button.style.setProperty('--swatch', `var(--s${number % 6})`);
      button.setAttribute('aria-pressed', 'true');
      button.addEventListener('click', () => {
        const visible = button.getAttribute('aria-pressed') !== 'true';
        button.setAttribute('aria-pressed', String(visible));
        chart.data.datasets.forEach((d, i) => { if (d.$number === number) chart.setDatasetVisibility(i, visible); });
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
    canvas.addEventListener('mousemove', (event) => {
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
      const color = css(`--s${dataset.$number % 6}`);
      const faintLine = dataset.$raw ? (smoothing > 0 ? 0.28 : 0) : 1;
      dataset.borderColor = withAlpha(color, faintLine);
      dataset.pointBackgroundColor = color;
      dataset.pointHoverBackgroundColor = color;
      dataset.pointHoverBorderColor = css('--surface');
      dataset.backgroundColor = color;
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
      dataset.data = points(series, series.smooth && !dataset.$raw ? smoothed(series.y, smoothing) : series.y);
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

  $('smoothing').addEventListener('input', () => {
    smoothing = Number($('smoothing').value);
    refresh();
  });
  $('theme').addEventListener('click', () => {
    chosen = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    applyTheme();
    refresh();
  });
  system.addEventListener('change', () => {
    applyTheme();
    refresh();
  });
})();
