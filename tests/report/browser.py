#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the page of `espalier report` in a headless Chromium, where one is installed (Debian: chromium). Nothing is
logged or loaded, and its figures are those of the result. Hover, zoom and filters work by mouse and keyboard, and no
frame draws more objects than pixels allow. Prints times without judging them.

usage: browser.py BINARY SOURCE_DIR [--pictures DIR]     with --pictures: screenshots (light, dark, narrow, print) into DIR
exit 77: no Chromium here
"""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import chromium  # noqa: E402

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLES = SOURCE / "examples"
GIB = 1 << 30
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def run(*words):
    ran = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=500)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit {ran.returncode} {ran.stderr}")
    return ran.stdout


def planned(name, folder):
    """Returns the page and the result of an example."""
    out = folder / name
    run("plan", EXAMPLES / f"{name}.yaml", "-o", out, "-q")
    page = folder / f"{name}.html"
    run("report", out / "plan.json", "-o", page, "-q")
    return page, json.loads((out / "result.json").read_text(encoding="utf-8"))


def seconds(value):
    """Formats seconds like base::seconds."""
    if value >= 1:
        return f"{value:.3f} s"
    return f"{value * 1e3:.1f} ms" if value >= 1e-3 else f"{value * 1e6:.1f} us"


def figures_are_those_of_the_result(page, result, name):
    shown = page.value("Object.fromEntries([...document.querySelectorAll('.figure')].map(f => [f.dataset.figure, "
                       "[f.querySelector('.value').textContent, f.querySelector('.detail').textContent, f.dataset.from]]))")
    p = result["prediction"]
    busiest = p.get("bottleneck", p)["breakdown_s"]  # the tiles show the busiest stage
    share = {key: f"{100 * busiest[part] / p['iteration_s']:.1f} %" for key, part in (("bubble", "bubble"), ("exposed", "exposed_communication"))}
    expected = {
        "iteration": seconds(p["iteration_s"]), "mfu": f"{100 * p['mfu']:.1f} %", "memory": f"{p['peak_memory_bytes'] / GIB:.1f} GiB", **share,
        "throughput": f"{round(p['tokens_per_s_per_gpu']):,}",
    }
    if "days" in p:
        expected["days"] = f"{p['days']:.1f} days"
    for key, text in expected.items():
        expect(shown[key][0] == text, f"{name}: {key} is {shown[key]}, in the result {text}")
    expect(f"{p['memory_limit_bytes'] / GIB:.1f} GiB" in shown["memory"][1], f"{name}: the limit of {shown['memory']}")
    expect(f"{p['mfu_peak_tflops']:.0f} TFLOP/s" in shown["mfu"][1], f"{name}: the peak of {shown['mfu']}")
    for key, (_, _, place) in shown.items():  # the place that a figure names must exist
        value = result
        for part in filter(None, place.split(".")):
            expect(part in value, f"{name}: {key} names {place}")
            value = value.get(part, {})
    expect(page.value("document.querySelector('h1').textContent") == page.value("JSON.parse(document.getElementById('data').textContent).label"), f"{name}: h1")
    inside = page.value("JSON.parse(document.getElementById('data').textContent).result")
    expect(inside["prediction"] == p, f"{name}: the prediction inside the page is that of result.json")


def state(page):
    return page.value("({...document.querySelector('.timeline canvas').dataset})")


def few_objects(page, what):
    s = state(page)
    limit = 4 * int(s["columns"]) * int(s["rows"])
    expect(0 < int(s["objects"]) <= limit, f"{what}: {s['objects']} objects, at most {limit}")
    return s


def canvas_box(page):
    page.value("document.querySelector('.timeline canvas').scrollIntoView({block: 'center'})")
    page.frame()
    return page.value("(b => [b.left, b.top, b.width, b.height])(document.querySelector('.timeline canvas').getBoundingClientRect())")


def timeline_works(page, name):
    left, top, width, _ = canvas_box(page)
    whole = few_objects(page, f"{name}, whole")
    page.mouse("mouseMoved", left + 148 + 0.3 * (width - 148), top + 35)
    page.frame()
    tip = page.value("(t => t.hidden ? '' : t.textContent)(document.querySelector('.timeline .tip'))")
    expect("compute" in tip and "micro-batch" in tip, f"{name}: hovering says {tip!r}")
    page.mouse("mouseWheel", left + 148 + 0.5 * (width - 148), top + 35, deltaX=0, deltaY=-600, modifiers=2)
    page.frame()
    near = few_objects(page, f"{name}, zoomed by wheel")
    span = lambda s: float(s["to"]) - float(s["from"])  # noqa: E731
    expect(span(near) < 0.5 * span(whole), f"{name}: the wheel zooms: {span(whole)} to {span(near)}")
    page.value("document.querySelector('.timeline canvas').focus({preventScroll: true})")
    before = state(page)
    page.key("w")
    page.frame()
    page.key("d")
    page.frame()
    after = few_objects(page, f"{name}, by keyboard")
    expect(span(after) < span(before) and float(after["from"]) > float(before["from"]), f"{name}: W and D move and zoom")
    page.key("ArrowRight")
    page.frame()
    said = page.value("document.getElementById('timeline-said').textContent")
    expect("rank" in said, f"{name}: the arrow keys say {said!r}")
    page.key("0")
    page.frame()
    expect(span(state(page)) == span(whole), f"{name}: 0 shows the whole step")
    page.mouse("mousePressed", left + 500, top + 35, button="left", clickCount=1)
    page.mouse("mouseReleased", left + 500, top + 35, button="left", clickCount=1)
    page.value("document.querySelector('.timeline details').open = true")
    page.frame()
    rows = page.value("document.querySelectorAll('.timeline details tbody tr').length")
    expect(0 < rows <= 200, f"{name}: {rows} rows of bars")
    page.value("document.querySelector('.timeline details').open = false")
    page.value("document.querySelector('.legend button').click()")
    page.frame()
    expect(page.value("document.querySelector('.legend button').getAttribute('aria-pressed')") == "true", f"{name}: the legend highlights")
    page.value("document.querySelector('.legend button').click()")


def search_works(page, name):
    page.value("document.querySelector('.searched canvas').scrollIntoView({block: 'center'})")
    page.frame()
    count = lambda: page.value("document.querySelector('.searched .said').textContent")  # noqa: E731
    everything = count()
    page.value("(s => { s.selectedIndex = 1; s.dispatchEvent(new Event('change')); })(document.querySelector('.searched .tools select'))")
    expect(count() != everything, f"{name}: a filter changes what is shown: {everything!r}")
    page.value("(s => { s.selectedIndex = 0; s.dispatchEvent(new Event('change')); })(document.querySelector('.searched .tools select'))")
    expect(count() == everything, f"{name}: without the filter it is as before")
    page.value("document.querySelector('.searched canvas').focus({preventScroll: true})")
    page.key("ArrowRight")
    tip = page.value("(t => t.hidden ? '' : t.textContent)(document.querySelector('.searched .tip'))")
    expect("GiB" in tip, f"{name}: a point says {tip!r}")
    rows = page.value("document.querySelectorAll('.searched details tbody tr').length")
    expect(rows > 1, f"{name}: the table of what was searched has {rows} rows")


def quiet(page, name):
    complaints = page.complaints()
    expect(not complaints, f"{name}: {complaints[:3]}")
    page.events.clear()


def examples(page, folder):
    for name in ("llama3-8b-on-8xh100", "mixtral-8x7b-on-32xa100", "llama3-70b-on-64xh100"):
        file, result = planned(name, folder)
        page.screen(1280)
        took = page.open(file)
        print(f"{name}: {file.stat().st_size} bytes, ready after {took:.2f} s")
        figures_are_those_of_the_result(page, result, name)
        timeline_works(page, name)
        search_works(page, name)
        for width in (1280, 390):
            page.screen(width)
            page.frame()
            across = page.value("document.documentElement.scrollWidth")
            expect(across <= width, f"{name}: {across} pixels wide on a screen of {width}")
        quiet(page, name)


def many_bars(page, folder):
    """Tests a hundred thousand bars: eight stages, 2,304 micro-batches."""
    out = folder / "many"
    run("estimate", EXAMPLES / "llama3-8b-on-8xh100.yaml", "--set", "training.global_batch=2304", "--pp", 8, "--micro-batch", 1, "-o", out, "-q")
    file = folder / "many.html"
    run("report", out / "plan.json", "--no-search", "-o", file, "-q")
    page.screen(1280)
    took = page.open(file)
    bars = page.value("JSON.parse(document.getElementById('data').textContent).timeline.rows.reduce((n, r) => n + r.bars, 0)")
    paint = page.value("performance.getEntriesByType('paint').map(p => p.startTime).pop() || 0")
    left, top, width, _ = canvas_box(page)
    times = [float(few_objects(page, "many bars")["drawMs"])]
    for _ in range(12):
        page.mouse("mouseWheel", left + 600, top + 35, deltaX=0, deltaY=-240, modifiers=2)
        page.frame()
        times.append(float(few_objects(page, "many bars, zoomed")["drawMs"]))
    print(f"{bars} bars in {file.stat().st_size} bytes: first paint {paint:.0f} ms, ready {1e3 * took:.0f} ms, whole step drawn in {times[0]} ms, "
          f"zoomed in {max(times[1:])} ms at most")
    expect(bars >= 95_000, f"{bars} bars")
    expect(file.stat().st_size <= 1_000_000, f"{file.stat().st_size} bytes")
    quiet(page, "many bars")


def names_are_no_html(page, folder):
    """Tests a model whose name would close the script element and open another."""
    plan = json.loads((folder / "llama3-8b-on-8xh100" / "plan.json").read_text(encoding="utf-8"))
    plan["model"]["name"] = "</script><script>document.title='broken'</script><img src=x onerror=alert(1)><!--"
    (folder / "evil.json").write_text(json.dumps(plan), encoding="utf-8")
    run("report", folder / "evil.json", "--no-search", "-o", folder / "evil.html", "-q")
    page.open(folder / "evil.html")
    expect(page.value("document.title").endswith(" — Espalier"), "the title of the evil page is " + page.value("document.title"))
    expect("</script><script>" in page.value("document.querySelector('.job').textContent"), "the evil name is shown as it is")
    expect(page.value("document.images.length") == 0, "no image is made of a name")
    quiet(page, "evil name")


def pictures(page, folder, into):
    """Takes the pictures of docs/report.md, and whole pages for inspection."""
    into.mkdir(parents=True, exist_ok=True)
    eight, seventy = folder / "llama3-8b-on-8xh100.html", folder / "llama3-70b-on-64xh100.html"
    top = lambda selector: page.value(f"document.querySelector('{selector}').getBoundingClientRect().top + scrollY")  # noqa: E731
    page.screen(1280)
    page.open(eight)
    page.picture(into / "report-light.png", (0, 0, 1280, 940))
    page.screen(1280, dark=True)
    page.open(seventy)
    page.value("document.querySelector('.timeline canvas').focus({preventScroll: true})")
    for key in "wwwwwwww" + "a" * 40:
        page.key(key)
    page.frame()
    page.value("document.activeElement.blur()")
    page.picture(into / "report-dark.png", (0, top("#timeline") - 20, 1280, 900))
    page.screen(390)
    page.open(eight)
    page.picture(into / "report-narrow.png", (0, 0, 390, 900))
    page.screen(760, media="print")
    page.open(eight)
    page.value("dispatchEvent(new Event('beforeprint'))")
    page.frame()
    page.picture(into / "report-print.png", (0, 0, 760, 1075))
    for dark in (False, True):
        page.screen(1280, dark=dark)
        page.open(seventy)
        page.frame()
        page.picture(into / f"whole-{'dark' if dark else 'light'}.png", whole=True)
    page.pdf(into / "whole.pdf")


def main():
    path = chromium.executable()
    if not path:
        print("skipped: no Chromium here (Debian: apt-get install chromium)")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        page = chromium.Page(path)
        try:
            examples(page, folder)
            many_bars(page, folder)
            names_are_no_html(page, folder)
            if "--pictures" in sys.argv:
                pictures(page, folder, pathlib.Path(sys.argv[sys.argv.index("--pictures") + 1]))
        finally:
            page.close()
    print("report in a browser:", f"{len(failures)} failures" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
