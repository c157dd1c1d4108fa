// Package gpu tells which cards this machine has, how they are, and whether an engine sits on those it was given.
//
// It asks the kernel (KFD and DRM under /sys) for AMD cards, nvidia-smi for NVIDIA ones, and on a Mac system_profiler and
// sysctl; rocm-smi is asked only where the kernel shows no AMD card. No vendor library is needed. What cannot be read
// stays unknown: it is never 0 and never "no card". Each way in which a card cannot be used is told apart, with the way
// out.
//
// Everything is read below one root and by one function that runs programs, so a folder can stand for a machine:
// testdata/hosts holds some. Everything read is bounded, and read anew with each call; a [Host] may be used from any
// goroutine. A [Live] keeps the readings fresh; its Run owns the only goroutine that looks.
package gpu
