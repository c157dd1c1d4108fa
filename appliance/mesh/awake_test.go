package mesh_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// awake lets d pass with the beats a Watcher gives.
func awake(table *mesh.Table, d time.Duration) {
	for ; d > 0; d -= 250 * time.Millisecond {
		mesh.Beat(table)
		time.Sleep(250 * time.Millisecond)
	}
	mesh.Beat(table)
}

func TestOwnStandstillIsNoSilenceOfTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, r := mesh.NewTable(0), capacity(4)
		mesh.Beat(table)
		mesh.Fill(table, []mesh.Member{member(2)}, r)
		ctx, heard := table.Guard(t.Context(), "n02")
		defer heard()
		sees := func() mesh.NodeState { return table.Snapshot()[0] }
		for range 3 {
			time.Sleep(20 * time.Second) // without a beat: the process stands still
			if s := sees(); s.Report == nil || s.Quarantined || ctx.Err() != nil {
				t.Fatalf("given up for the time we stood still: %+v, %v", s, context.Cause(ctx))
			}
			mesh.Beat(table)
			awake(table, time.Second)
			mesh.Hear(table, "n02", &r)
		}
		awake(table, 2400*time.Millisecond)
		if sees().Report == nil || ctx.Err() != nil {
			t.Fatal("stale too early")
		}
		awake(table, time.Second)
		if s := sees(); s.Report != nil || !s.Quarantined || !errors.Is(context.Cause(ctx), mesh.ErrSilent) {
			t.Fatalf("believed although silent while we were awake: %+v, %v", s, context.Cause(ctx))
		}
	})
}

func TestTableWithoutAWatcherGrowsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, nil)
		time.Sleep(time.Second)
		a.stop()
		time.Sleep(4 * time.Second)
		if s := a.sees(b.ID); s.Report != nil {
			t.Fatalf("%+v", s)
		}
	})
}

// TestOwnStandstillMakesNobodySilentLater: a member that is off for a moment is not named for the time this process once stood still.
func TestOwnStandstillMakesNobodySilentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		standstill := sync.OnceFunc(func() { time.Sleep(20 * time.Second) })
		a, b, _ := pair(t, func(a, _ *node) {
			a.members = func() []mesh.Member {
				standstill()
				return []mesh.Member{member(2)}
			}
		})
		time.Sleep(25 * time.Second)
		b.stop()
		time.Sleep(1500 * time.Millisecond)
		if w := a.watcher.Warnings(); len(w) != 0 || a.sees(b.ID).Fault == "" {
			t.Errorf("off for a moment: %+v, fault %q", w, a.sees(b.ID).Fault)
		}
		time.Sleep(3 * time.Second)
		if w := a.watcher.Warnings(); len(w) != 1 || w[0].ID != "mesh_silent" {
			t.Errorf("off for longer: %+v", w)
		}
	})
}
