// The dashboard's scripts. Every page works without them; with them it stays fresh, takes keys, and asks in place.
import { startCharts } from "./charts.js";
import { startForms } from "./forms.js";
import { startGraph } from "./graph.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startPalette } from "./palette.js";
import { startTheme } from "./theme.js";
import { startTimes } from "./times.js";
import { startTrials } from "./trials.js";

startTimes();
startTheme();
startForms();
startKeys();
startPalette();
startCharts();
startGraph();
startTrials();
startLive();
document.documentElement.dataset.ready = ""; // keys are heard from here on
