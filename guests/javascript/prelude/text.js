// Comes first: other packages use these when they load.
import { TextDecoder, TextEncoder } from "@exodus/bytes/encoding.js";
import { offer } from "./offer.js";

offer({ TextDecoder, TextEncoder });
