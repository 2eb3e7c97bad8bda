// Takes the place of tr46 for whatwg-url. Its tables become tens of thousands of objects, which every collection would visit and
// which few programs need: only host names that are not plain ASCII load them.
const plain = /^[\x21-\x7e]*$/;
const tr46 = () => require("../node_modules/tr46/index.js");

exports.toASCII = (domain, options) =>
  plain.test(domain) && !options.verifyDNSLength && !/xn--/i.test(domain) ? domain.toLowerCase() : tr46().toASCII(domain, options);

exports.toUnicode = (domain, options) => tr46().toUnicode(domain, options);
