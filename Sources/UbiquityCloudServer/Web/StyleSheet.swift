/// The style sheet of the pages: light and dark, from 320 to 2,560 pixels.
enum StyleSheet {
    static let text = #"""
        :root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1b1f27;--soft:#5a6372;--line:#dfe3ea;
        --accent:#2456d6;--on-accent:#fff;--tint:#e9effd;--warn:#8a4b00;--warn-tint:#fff2dc;--bad:#b3261e;
        --bad-tint:#fdecea;--good-tint:#e2f5e8;--good:#14622f;--shadow:0 1px 2px #0001,0 4px 16px #0000000d}
        @media(prefers-color-scheme:dark){:root{--page:#12151a;--card:#1b1f27;--text:#e7eaf0;--soft:#a3acbb;
        --line:#323946;--accent:#8fb0ff;--on-accent:#0d1424;--tint:#232d44;--warn:#ffc46b;--warn-tint:#35290f;
        --bad:#ff9d94;--bad-tint:#3a1d1b;--good-tint:#15321f;--good:#8fdba8;--shadow:none}}
        *{box-sizing:border-box}
        html{-webkit-text-size-adjust:100%}
        body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,-apple-system,"Segoe UI",
        "Noto Sans","DejaVu Sans",sans-serif;display:grid;grid-template:auto 1fr/15.5rem minmax(0,1fr);
        grid-template-areas:"top top" "side main";min-height:100vh}
        h1{font-size:1.5rem;line-height:1.25;margin:0 0 1rem;overflow-wrap:anywhere}
        h2{font-size:1.1rem;margin:0 0 .75rem}
        p{margin:0 0 .75rem}
        a{color:var(--accent)}
        :focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:6px}
        main:focus{outline:none}
        .hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
        .sprite{display:none}
        .skip{position:fixed;top:-5rem;left:.5rem;z-index:9;background:var(--card);padding:.75rem 1rem}
        .skip:focus{top:.5rem}
        .icon{width:1.35rem;height:1.35rem;flex:none;fill:none;stroke:currentColor;stroke-width:1.7;
        stroke-linecap:round;stroke-linejoin:round}

        .top{grid-area:top;display:flex;align-items:center;gap:1rem;padding:.5rem 1.25rem;background:var(--card);
        border-bottom:1px solid var(--line);position:sticky;top:0;z-index:5}
        .brand{display:flex;align-items:center;gap:.6rem;min-height:44px;font-weight:700;color:inherit;
        text-decoration:none;font-size:1.1rem}
        .brand .icon{color:var(--accent);width:1.75rem;height:1.75rem}
        .search{position:relative;flex:1;max-width:36rem;margin:0 auto}
        .search .icon{position:absolute;left:.75rem;top:.7rem;color:var(--soft);pointer-events:none}
        .search #q{width:100%;padding-left:2.6rem;border-radius:22px;background:var(--page)}
        .who{display:flex;align-items:center;gap:.5rem;margin:0;color:var(--soft)}
        .side{grid-area:side;padding:1rem .75rem;display:flex;flex-direction:column;position:sticky;top:61px;
        height:calc(100vh - 61px)}
        .side ul{list-style:none;margin:0;padding:0;display:grid;gap:2px}
        .side li a{display:flex;align-items:center;gap:.8rem;min-height:44px;padding:0 .9rem;border-radius:10px;
        color:inherit;text-decoration:none}
        .side li a:hover{background:var(--line)}
        .side li a[aria-current]{background:var(--tint);color:var(--accent);font-weight:600}
        .space{margin-top:auto;padding:1rem .9rem .25rem;font-size:.85rem;color:var(--soft)}
        .space p{margin:.25rem 0 0}
        meter{width:100%;height:.75rem;border:0}
        main{grid-area:main;padding:1.5rem clamp(1rem,3vw,2.5rem) 4rem;width:100%;max-width:90rem}
        main.narrow{grid-column:1/-1;max-width:30rem;margin:0 auto;padding-top:clamp(1.5rem,8vh,6rem)}

        button,.button,select,input:not([type=checkbox]):not([type=radio]):not([type=hidden]),summary.button{
        font:inherit;min-height:44px;border-radius:10px;border:1px solid var(--line);background:var(--card);
        color:var(--text);padding:.45rem .9rem}
        button,.button,summary.button{display:inline-flex;align-items:center;justify-content:center;gap:.5rem;
        cursor:pointer;text-decoration:none;font-weight:550;white-space:nowrap}
        button:hover,.button:hover{border-color:var(--soft)}
        .primary{background:var(--accent)!important;color:var(--on-accent)!important;border-color:transparent!important}
        .danger{color:var(--bad)!important}
        .quiet{border-color:transparent;background:none;color:var(--accent)}
        input[type=checkbox],input[type=radio]{width:1.2rem;height:1.2rem;accent-color:var(--accent);margin:0;flex:none}
        input[type=file]{max-width:100%}
        label.field{display:grid;gap:.3rem;margin:0 0 1rem;font-weight:550}
        label.field small{font-weight:400;color:var(--soft)}
        label.choice{display:flex;align-items:center;gap:.7rem;min-height:44px}
        fieldset{border:0;margin:0 0 1rem;padding:0}
        legend{font-weight:550;padding:0}
        summary{cursor:pointer;min-height:44px;display:inline-flex;align-items:center}
        summary.button{list-style:none}
        summary.button::-webkit-details-marker{display:none}
        .row{display:flex;gap:.6rem;align-items:center;flex-wrap:wrap}
        .row>input:not([type=checkbox]){flex:1;min-width:8rem}
        form+.row,.row+form,.row+details,form+details,.sides+.row{margin-top:1rem}

        .card{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:1.25rem;
        box-shadow:var(--shadow);margin:0 0 1.25rem;min-width:0}
        .cards{display:grid;gap:1.25rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,18rem),1fr))}
        a.card{display:flex;gap:1rem;align-items:center;color:inherit;text-decoration:none;margin:0}
        a.card:hover{border-color:var(--accent)}
        a.card .icon{width:2.2rem;height:2.2rem;color:var(--accent)}
        .soft{color:var(--soft)}
        .notice,.warning,.failure{display:flex;align-items:center;gap:1rem;justify-content:space-between;
        background:var(--good-tint);color:var(--good);padding:.4rem 1rem;min-height:44px;border-radius:10px;
        margin:0 0 1rem}
        .warning{background:var(--warn-tint);color:var(--warn)}
        .warning a{color:inherit}
        .failure{background:var(--bad-tint);color:var(--bad)}
        .failure p{margin:0}
        .empty{text-align:center;padding:3.5rem 1rem;color:var(--soft)}
        .empty .icon{width:3.5rem;height:3.5rem;stroke-width:1.1}

        .crumbs ol{display:flex;flex-wrap:wrap;list-style:none;margin:0 0 .25rem;padding:0;align-items:center}
        .crumbs li{display:flex;align-items:center;max-width:100%}
        .crumbs li+li::before{content:"/";color:var(--soft);padding:0 .4rem}
        .crumbs a{display:inline-flex;align-items:center;min-height:44px;overflow-wrap:anywhere}
        .tools{display:flex;flex-wrap:wrap;gap:.6rem;align-items:flex-start;margin:0 0 1rem}
        .tools details{position:relative}
        .tools details[open]>.pop{position:absolute;z-index:4;margin-top:.4rem;width:min(22rem,calc(100vw - 2rem))}
        .tools .end{margin-left:auto}

        .items{width:100%;border-collapse:separate;border-spacing:0;background:var(--card);border:1px solid var(--line);
        border-radius:14px;box-shadow:var(--shadow);table-layout:fixed}
        .items th{font-size:.85rem;font-weight:550;color:var(--soft);text-align:left;padding:.4rem .75rem}
        .items td{border-top:1px solid var(--line);padding:0 .75rem;height:56px}
        .items .pick{width:3.4rem;padding:0 0 0 .4rem}
        .items .pick label{display:flex;width:44px;height:44px;align-items:center;justify-content:center}
        .items .when{width:11.5rem;color:var(--soft)}
        .items .size{width:7rem;text-align:right;color:var(--soft);font-variant-numeric:tabular-nums}
        .items .act{width:3.6rem;padding:0 .3rem 0 0}
        .items tbody tr:hover{background:var(--page)}
        .items tbody tr:has(input:checked){background:var(--tint)}
        .items tbody tr:last-child td:first-child{border-bottom-left-radius:14px}
        .items tbody tr:last-child td:last-child{border-bottom-right-radius:14px}
        .open{display:flex;align-items:center;gap:.8rem;min-height:56px;color:inherit;text-decoration:none;min-width:0}
        .open:hover .name{text-decoration:underline}
        .open .icon{width:1.6rem;height:1.6rem;color:var(--soft)}
        .open .icon.is-folder{color:var(--accent)}
        .thumb{width:2.5rem;height:2.5rem;flex:none;display:grid;place-items:center;border-radius:8px;overflow:hidden}
        .thumb img{width:100%;height:100%;object-fit:cover;background:var(--line)}
        .label{min-width:0;display:grid}
        .name{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
        .sub{font-size:.8rem;color:var(--soft);display:none;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
        .always .sub{display:block}
        .badge{font-size:.75rem;font-weight:600;border-radius:20px;padding:.1rem .55rem;background:var(--warn-tint);
        color:var(--warn);white-space:nowrap;justify-self:start}
        .more{display:grid;place-items:center;width:44px;height:44px;border-radius:10px;color:var(--soft)}
        .more:hover{background:var(--line)}
        .more .icon{stroke-width:3}
        .selection{display:flex;gap:.6rem;align-items:center;flex-wrap:wrap;padding:.75rem 0}
        .script .selection{position:sticky;bottom:0;background:var(--page);border-top:1px solid var(--line)}
        .script .selection:not(.on){display:none}
        .pages{display:flex;gap:.6rem;align-items:center;justify-content:center;padding:1rem 0;flex-wrap:wrap}

        .split{display:grid;gap:1.25rem;grid-template-columns:minmax(0,3fr) minmax(16rem,2fr);align-items:start}
        .preview{display:grid;place-items:center;min-height:12rem}
        .preview:has(pre){display:block}
        .preview img{max-width:100%;max-height:65vh;border-radius:8px}
        .preview .icon{width:5rem;height:5rem;stroke-width:1;color:var(--soft)}
        pre{font:.85rem/1.5 ui-monospace,"DejaVu Sans Mono",monospace;white-space:pre-wrap;overflow-wrap:anywhere;
        margin:0;max-width:100%}
        .folders{list-style:none;padding:0;margin:0 0 1rem}
        .folders a{flex:1;min-height:44px;display:flex;align-items:center}
        .center{justify-content:center;margin:0 0 1.25rem}
        .both{width:12.5rem}
        .menu{position:relative}
        .menu summary{list-style:none}
        .menu summary::-webkit-details-marker{display:none}
        .menu[open] form{position:absolute;right:0;z-index:4}
        .preview pre{width:100%;max-height:65vh;overflow:auto}
        dl{display:grid;grid-template-columns:auto minmax(0,1fr);gap:.3rem 1.25rem;margin:0 0 1rem}
        dt{color:var(--soft)}
        dd{margin:0;overflow-wrap:anywhere}
        .wide{overflow-x:auto;margin:0 0 1rem}
        .wide table{border-collapse:collapse;width:100%}
        .wide th,.wide td{text-align:left;padding:.5rem 1rem .5rem 0;border-bottom:1px solid var(--line);
        vertical-align:middle;white-space:nowrap}
        .wide td:first-child{white-space:normal;overflow-wrap:anywhere;min-width:7rem}
        .wide .row{flex-wrap:nowrap}
        .wide tr:last-child td{border-bottom:0}
        .wide th{color:var(--soft);font-size:.85rem;font-weight:550}
        .wide form{display:inline}

        .sides{display:grid;grid-template-columns:1fr 1fr;gap:1.25rem}
        .sides .card{margin:0;display:flex;flex-direction:column;gap:.75rem}
        .sides .card>form{margin-top:auto}
        .diff{width:100%;border-collapse:collapse;table-layout:fixed;font:.85rem/1.5 ui-monospace,"DejaVu Sans Mono",
        monospace;background:var(--card);border:1px solid var(--line);border-radius:14px;overflow:hidden}
        .diff td{padding:.1rem .75rem;white-space:pre-wrap;overflow-wrap:anywhere;vertical-align:top}
        .diff th{padding:.6rem .75rem;text-align:left;font-family:inherit}
        .diff .old{background:var(--bad-tint)}
        .diff .new{background:var(--good-tint)}
        .diff .gap td{color:var(--soft);text-align:center;background:var(--page);white-space:normal}
        .diff del,.diff ins{text-decoration:none}
        .diff .old::before{content:"− "}
        .diff .new::before{content:"+ "}
        .bars{display:grid;gap:.75rem;margin:0 0 1.25rem}
        .bars svg{width:100%;height:1rem;border-radius:8px;background:var(--line);display:block}
        .live{fill:var(--accent)}.earlier{fill:#8a63d2}.deleted{fill:#c07a1e}
        .key{display:flex;flex-wrap:wrap;gap:.4rem 1.25rem;list-style:none;padding:0;margin:0;font-size:.9rem}
        .bars .key svg{display:inline-block;width:.8rem;height:.8rem;margin-right:.4rem;border-radius:3px}
        .code{font:700 1.4rem/1 ui-monospace,"DejaVu Sans Mono",monospace;letter-spacing:.15em;text-transform:uppercase}
        .secret{font-family:ui-monospace,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere;user-select:all}

        dialog{border:1px solid var(--line);border-radius:16px;background:var(--page);color:var(--text);padding:1.25rem;
        width:min(62rem,calc(100vw - 1.5rem));max-height:calc(100vh - 2rem);overflow:auto}
        dialog.small{width:min(26rem,calc(100vw - 1.5rem))}
        dialog::backdrop{background:#0007}
        .close{float:right}
        .drop{position:fixed;inset:0;z-index:8;display:grid;place-items:center;background:var(--tint);opacity:.96;
        border:4px dashed var(--accent);font-size:1.4rem;font-weight:600;pointer-events:none}
        .uploads{position:fixed;right:1rem;bottom:1rem;z-index:7;width:min(24rem,calc(100vw - 2rem));
        background:var(--card);border:1px solid var(--line);border-radius:14px;padding:.75rem 1rem;
        box-shadow:0 8px 32px #0003;max-height:50vh;overflow:auto}
        .uploads progress{width:100%;accent-color:var(--accent)}
        .uploads p{margin:.25rem 0;overflow-wrap:anywhere}
        .script .plain{display:none}

        @media(max-width:56rem){
        body{grid-template:auto 1fr/minmax(0,1fr);grid-template-areas:"top" "main";padding-bottom:4rem}
        .top{flex-wrap:wrap;padding:.4rem .75rem;gap:.25rem .75rem}
        .search{order:9;flex-basis:100%;max-width:none}
        .who{margin-left:auto;min-width:0}
        .who span{overflow:hidden;text-overflow:ellipsis;max-width:9rem}
        .side{position:fixed;inset:auto 0 0 0;height:auto;background:var(--card);border-top:1px solid var(--line);
        padding:.15rem .25rem env(safe-area-inset-bottom);z-index:6;display:block}
        .side ul{grid-auto-flow:column;grid-auto-columns:minmax(44px,1fr)}
        .side li a{flex-direction:column;gap:0;justify-content:center;padding:.3rem 0;min-height:54px;font-size:.7rem;
        border-radius:8px;min-width:0}
        .space{display:none}
        .items .when,.items .size{display:none}
        .sub{display:block}
        .items th{padding:.25rem .5rem}
        .items td{padding:0 .4rem}
        .items .pick{width:2.9rem;padding:0}
        .split,.sides{grid-template-columns:minmax(0,1fr)}
        .wide thead{display:none}
        .wide table,.wide tbody,.wide tr,.wide td{display:block}
        .wide th,.wide td{border:0;padding:.1rem 0;white-space:normal}
        .wide tr{border-bottom:1px solid var(--line);padding:.6rem 0}
        .wide .row{flex-wrap:wrap;margin-top:.4rem}
        .uploads{bottom:4.5rem}
        .script .selection{bottom:3.6rem}
        .tools .end{margin-left:0}
        }
        @media(max-width:24rem){.side li:first-child{display:none}}
        @media(prefers-reduced-motion:reduce){*{transition:none!important;scroll-behavior:auto!important}}
        @media print{.top,.side,.tools,.selection,.more,.pick{display:none}body{display:block}}
        """#
}
