package gpu_test

import (
	"fmt"
	"testing"

	"viiwork/engine"
	"viiwork/engine/gpu"
)

func TestWhatAProcessHoldsIsReadByCard(t *testing.T) {
	amd := gpu.Host{Run: none, Root: tree(t, map[string]string{
		"sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 240\ngfx_target_version 90006\n",
		"sys/class/kfd/kfd/topology/nodes/1/gpu_id":     "111\n",
		"sys/class/kfd/kfd/topology/nodes/2/properties": "simd_count 240\ngfx_target_version 90006\n",
		"sys/class/kfd/kfd/topology/nodes/2/gpu_id":     "222\n",
		"sys/class/kfd/kfd/proc/42/vram_111":            "1048576\n", // opened, not used
		"sys/class/kfd/kfd/proc/42/vram_222":            "9000000000\n",
		"sys/class/kfd/kfd/proc/43/vram_111":            "9000000000\n",
	})}
	if got := fmt.Sprint(amd.Held(t.Context(), []int{42}, engine.AccelROCm)); got != "map[1:9000000000]" {
		t.Errorf("AMD: %s", got)
	}
	nvidia := gpu.Host{Root: t.TempDir(), Run: smi(map[string]string{
		"--query-gpu":          "0, RTX, GPU-a, 24576, 00000000:01:00.0\n1, RTX, GPU-b, 24576, 00000000:02:00.0\n",
		"--query-compute-apps": "42, GPU-b, 8192\n42, GPU-a, [N/A]\n43, GPU-a, 4096\nnonsense\n",
	}, nil)}
	if got := fmt.Sprint(nvidia.Held(t.Context(), []int{42}, engine.AccelCUDA)); got != fmt.Sprintf("map[1:%d]", int64(8192)<<20) {
		t.Errorf("NVIDIA: %s", got)
	}
	if got := (gpu.Host{Root: t.TempDir(), Run: none}).Held(t.Context(), []int{42}, engine.AccelCUDA); len(got) != 0 {
		t.Errorf("a machine without the tool: %v", got)
	}
}
