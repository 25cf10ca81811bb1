/* What a search shows first: of pages that have the words likewise those that are followed, and last those that record what was seen or say how mgc
   is made. A word in a title counts for 15 or 7, in a text for 5 or 2: what is looked up stays before all of these. */
var Scorer = {
  score: ([page, , , , score]) => {
    if (/^(evidence|predictions|gpu_bounds|house|reference\/(abi|changelog))$/.test(page)) return score - 1.5;
    return /^(tutorial|howto)\/|^install$/.test(page) ? score + 1 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
