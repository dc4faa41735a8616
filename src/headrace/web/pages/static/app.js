// The dashboard's scripts. A page works without them; they update it, handle keys and show confirmations in place.
import { startCharts } from "./charts.js";
import { startForms } from "./forms.js";
import { startGraph } from "./graph.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startPalette } from "./palette.js";
import { startPreviews } from "./previews.js";
import { startTheme } from "./theme.js";
import { startTimes } from "./times.js";

startTimes();
startTheme();
startForms();
startKeys();
startPalette();
startCharts();
startGraph();
startPreviews();
startLive();
document.documentElement.dataset.ready = ""; // the keys work from now on
