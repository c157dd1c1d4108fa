package appliance_test

import (
	"testing"

	"viiwork/appliance"
)

func TestTheRoomInMemoryIsOfTheMachine(t *testing.T) {
	if free, _ := appliance.MemoryRoom("/proc"); free != 0 {
		t.Errorf("%d bytes can be kept in a folder that is no memory", free)
	}
	if free, memory := appliance.MemoryRoom("/dev/shm"); free < 0 || free > memory {
		t.Errorf("%d of %d bytes are free", free, memory)
	}
}
