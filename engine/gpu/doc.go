// Package gpu tells which cards this machine has and whether an engine sits on those it was given.
//
// It asks the kernel (KFD and DRM under /sys) for AMD cards and nvidia-smi for NVIDIA ones; no vendor library is
// needed. What cannot be read stays unknown: it is never 0 and never "no card". Everything read is bounded, and read
// anew with each call; a [Host] has no state and may be used from any goroutine.
package gpu
