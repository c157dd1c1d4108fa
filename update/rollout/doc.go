// Package rollout decides how the machines of a mesh go to another version: which one is next, when none may, and when it is
// over.
//
// A [Roll] is one roll-out as it is kept and told: what is known of each member and how it ended. [Roll.Next] looks at the
// members as they are now, each a [Sight], and gives the roll-out as it goes on and the one [Step] to take. It is a pure
// function: whoever leads keeps what it gives before taking the step, and whoever takes over from a leader that is gone goes
// on from there.
//
// It promises: one member at a time, the first of them the canary, whose trial is over before another begins; none that is the
// last to serve a model; nothing new after the first member that went back to its old version, after a person's word that it
// shall end, nor outside of the window; and an end, whatever members do.
package rollout
