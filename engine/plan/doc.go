// Package plan says which cards a model gets, in how many slots of which context, and how much RAM is left for the
// engines' prompt caches; or why this machine cannot hold it, and what it could hold instead.
//
// It works in two ways. [Check] takes a layout as the owner wrote it and holds it against the machine. [Propose] takes
// model files and makes a layout. Both are pure: no I/O, no clock, no log; equal arguments give equal answers, and the
// order in which cards are listed does not matter. What is not known of a machine or a file refuses nothing: it is said in a
// warning.
//
// # Arithmetic
//
// An engine puts layer i of n on a card by its place i/(n+1) among the cards' shares, the output behind the last layer. A
// card then holds, of each layer it has, the weights and slots × what one conversation keeps there; and once:
//
//   - working buffers, for 512 tokens computed at a time: 4 bytes × 512 × (8 × width + 3 × the layer's widest place), and
//     2 × 512 bytes for each token of context in all slots; where the output is, 4 bytes × 512 × the vocabulary more;
//   - head-room that no model may use: 512 MiB, 1536 MiB on a card with a display. The driver's own share is in it.
//
// What was measured on loaded engines takes the place of the working buffers ([Measure]).
//
// RAM holds the weights of models without cards (once for each file: processes share its pages), the embedding matrix of
// those with cards, what engines without cards keep and compute, everything on cards that share the machine's memory, and the
// prompt caches. An eighth of RAM, at most 4 GiB, is left to the rest of the machine.
package plan
