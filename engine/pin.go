package engine

import (
	"strconv"
	"strings"
)

// Overridden reports whether a variable that came with an image or an environment would act against the node's own
// choice: those that pick cards, and llama-server's LLAMA_ARG_* twins of its flags.
//
// One left over from the shell that started the node would shift or hide cards behind the node's back.
func Overridden(name string) bool {
	switch name {
	case "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
		"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
		"GGML_VK_VISIBLE_DEVICES", "GGML_OPENCL_DEVICE", "ZE_AFFINITY_MASK",
		"ONEAPI_DEVICE_SELECTOR", "MUSA_VISIBLE_DEVICES", "LLAMA_API_KEY":
		return true
	}
	return strings.HasPrefix(name, "LLAMA_ARG_")
}

// CleanEnv returns the entries of environ ("NAME=value") that an engine process may inherit: none of the node's
// secrets, no device variables, no flags in disguise.
func CleanEnv(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		name, _, found := strings.Cut(entry, "=")
		if found && inheritable(name) && !Overridden(name) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// inheritable is a list of what is let through and not of what is held back: the owner may keep the mesh secret under
// any name, so a list of forbidden names would always miss one. What else an engine needs, the owner writes into the
// model's env.
func inheritable(name string) bool {
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR",
		"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH":
		return true
	}
	family, _, found := strings.Cut(name, "_")
	if !found {
		return false
	}
	switch family {
	case "LC", "XDG", "GGML", "CUDA", "HIP", "HSA", "ROCM", "ROCBLAS", "AMD", "VK", "MESA", "RADV",
		"OMP", "GOMP", "KMP", "OPENBLAS", "MKL":
		return true
	}
	return false
}

// DeviceEnv gives the variables that bind a process which sees all cards of the host to gpus (host indices of that
// family). A backend without cards is kept off all of them, unless it runs on Metal, which knows no such variable.
//
// ROCm gets ROCR_VISIBLE_DEVICES alone: HIP_VISIBLE_DEVICES counts within what ROCr left visible, so host indices in
// both would hide every card but the first ones. HIP also obeys CUDA_VISIBLE_DEVICES, so that one stays unset there.
func DeviceEnv(accel Accel, gpus []int) map[string]string {
	switch {
	case accel == AccelMetal:
		return nil
	case len(gpus) == 0:
		return map[string]string{
			"CUDA_VISIBLE_DEVICES":    "",
			"HIP_VISIBLE_DEVICES":     "-1",
			"GGML_VK_VISIBLE_DEVICES": "",
		}
	case accel == AccelCUDA:
		return map[string]string{
			"CUDA_DEVICE_ORDER":    "PCI_BUS_ID", // the order nvidia-smi counts in; CUDA's own is fastest first
			"CUDA_VISIBLE_DEVICES": indexList(gpus),
		}
	case accel == AccelROCm:
		return map[string]string{"ROCR_VISIBLE_DEVICES": indexList(gpus)}
	}
	return nil
}

func indexList(gpus []int) string {
	names := make([]string, len(gpus))
	for i, n := range gpus {
		names[i] = strconv.Itoa(n)
	}
	return strings.Join(names, ",")
}
