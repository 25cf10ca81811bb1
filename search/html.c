/* html.c - the frame of pages of searches; see html.h. */
#include "search/html.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";

static const char style[] =
    "</title>\n<style>\n"
    ":root{color-scheme:light dark;--back:#fbfbf9;--text:#1d1d1b;--dim:#6b6b66;--line:#d9d8d2;"
    "--panel:#fff;--focus:#1f5fbf;--c0:#3465a4;--c1:#d9822b;--c2:#4e9a4e;--c3:#a05195}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#161615;--text:#e8e7e3;--dim:#9d9c95;"
    "--line:#3a3a37;--panel:#1f1f1d;--focus:#8ab4f8;--c0:#7aa2d8;--c1:#e8a765;--c2:#84c184;"
    "--c3:#c990c0}}\n"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:64em;padding:12px 16px 40px;background:var(--back);"
    "color:var(--text);font:15px/1.5 system-ui,'DejaVu Sans',sans-serif}\n"
    "h1{font-size:22px;margin:8px 0 2px;overflow-wrap:anywhere}h2{font-size:17px;margin:22px 0 6px}"
    "h3{font-size:15px;margin:12px 0 2px;color:var(--dim)}p{margin:4px 0 10px;color:var(--dim)}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "th,td{text-align:left;vertical-align:top;padding:3px 14px 3px 0;border-bottom:1px solid "
    "var(--line)}th{color:var(--dim);white-space:nowrap}td{white-space:nowrap}"
    "td.wide{white-space:normal;min-width:16em}.some{white-space:normal;min-width:11em}\n"
    "pre{background:var(--panel);border:1px solid var(--line);padding:10px 12px;overflow:auto}"
    "svg{display:block;width:100%;background:var(--panel);border:1px solid var(--line)}"
    ".scroll svg{min-width:600px}svg "
    "text{font-size:12px;fill:var(--dim)}.axis{fill:none;stroke:var(--line)}"
    ".front,.line{fill:none;stroke:var(--c1);stroke-width:1.5}"
    ".ideal{fill:none;stroke:var(--dim);stroke-dasharray:4 4}.stop{stroke:var(--c3);"
    "stroke-dasharray:2 3}\n"
    ".quick{fill:var(--dim);opacity:.5}.whole,.f0{fill:var(--c0)}.best,.f1{fill:var(--c1)}"
    ".f2{fill:var(--c2)}.f3{fill:var(--c3)}"
    ".bars{display:grid;grid-template-columns:auto 1fr;gap:5px "
    "8px;align-items:center;margin-bottom:6px}"
    ".bars span{text-align:right;color:var(--dim);font-size:12px}.bars div{display:flex;"
    "height:16px}.bars .f0{background:var(--c0)}.bars .f1{background:var(--c1)}"
    ".bars .f2{background:var(--c2)}.bars .f3{background:var(--c3)}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:0 16px}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:4px 16px;color:var(--dim)}.legend svg{display:inline;"
    "width:11px;height:11px;border:0;margin-right:6px}\n"
    ":focus-visible{outline:2px solid var(--focus);outline-offset:2px}\n"
    "</style>\n</head>\n<body>\n<h1>";

void html_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        const char *as = *text == '<'   ? "&lt;"
                         : *text == '>' ? "&gt;"
                         : *text == '&' ? "&amp;"
                         : *text == '"' ? "&quot;"
                                        : NULL;
        if (as)
            fputs(as, out);
        else
            fputc(*text, out);
    }
}

void html_begin(const char *title, FILE *out)
{
    fputs(head, out);
    html_text(title, out);
    fputs(style, out);
    html_text(title, out);
    fputs("</h1>\n", out);
}

void html_end(FILE *out)
{
    fputs("</body>\n</html>\n", out);
}
