import "core-js/modules/web.structured-clone.js";
import { URL, URLSearchParams } from "whatwg-url";
import { offer } from "./offer.js";

offer({ URL, URLSearchParams, structuredClone: globalThis.structuredClone });
delete globalThis["__core-js_shared__"];
