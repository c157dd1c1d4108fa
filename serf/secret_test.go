package serf_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"viiwork/serf"
)

// keyed starts n nodes with one key.
func keyed(t *testing.T, f *fabric, n int, k []byte) []*node {
	t.Helper()
	var nodes []*node
	for i := range n {
		cfg := config(i+1, f.host(i+1))
		cfg.Key = k
		nodes = append(nodes, start(t, cfg))
		if i > 0 {
			nodes[i].join(nodes[0])
		}
	}
	waitAll(t, nodes, time.Minute)
	return nodes
}

func TestWrongSecretChangesNothingAndIsNamed(t *testing.T) {
	for _, c := range []struct {
		name          string
		mesh, own     []byte
		inMesh, inOwn string // the warning on either side
		words         string
	}{
		{"another secret", key(1), key(2), "gossip-secret", "gossip-secret", "another mesh secret"},
		{"no secret", key(1), nil, "gossip-no-secret", "gossip-open", "has a mesh secret and this node is set to mesh.open"},
		{"a secret for an open mesh", nil, key(2), "gossip-open", "gossip-no-secret", "has no mesh secret"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFabric()
				nodes := keyed(t, f, 3, c.mesh)
				cfg := config(9, f.host(9))
				cfg.Key = c.own
				stranger := start(t, cfg)
				for range 5 {
					met, err := stranger.Join(context.Background(), []netip.AddrPort{nodes[0].net.addrPort()})
					if met != 0 || err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), nodes[0].net.Addr().String()) {
						t.Fatalf("joining: %d met, %v", met, err)
					}
					time.Sleep(10 * time.Second)
				}
				waitAll(t, nodes, time.Second)
				if !slices.Equal(stranger.alive(), []string{stranger.id}) || nodes[0].sees(stranger.id) != "" {
					t.Errorf("the stranger sees %v, and is seen as %q", stranger.alive(), nodes[0].sees(stranger.id))
				}
				for _, side := range []struct {
					n    *node
					id   string
					addr netip.Addr
				}{{nodes[0], c.inMesh, cfg.Network.Addr()}, {stranger, c.inOwn, nodes[0].net.Addr()}} {
					w, ok := side.n.warned(side.id)
					if !ok || w.Addr != side.addr || !strings.Contains(w.Text, side.addr.String()) || !strings.Contains(w.Fix, "VIIWORK_MESH_SECRET_FILE") || len(side.n.Warnings()) != 1 {
						t.Errorf("%s warns %+v", side.n.id, side.n.Warnings())
					}
					if n := side.n.log.count("level=WARN"); n != 1 {
						t.Errorf("%s logged %d warnings for five attempts", side.n.id, n)
					}
				}
				noKeys(t, append(nodes, stranger), key(1), key(2))
			})
		})
	}
}

// noKeys fails if a log holds a key in any writing.
func noKeys(t *testing.T, nodes []*node, keys ...[]byte) {
	t.Helper()
	for _, n := range nodes {
		for _, k := range keys {
			for _, s := range []string{string(k), hex.EncodeToString(k), base64.StdEncoding.EncodeToString(k)} {
				if strings.Contains(n.log.String(), s) {
					t.Errorf("%s logged a key", n.id)
				}
			}
		}
	}
}

func TestMemberThatReturnsWithAnotherSecretIsCalledByItsName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := keyed(t, f, 3, key(1))
		nodes[2].kill()
		time.Sleep(20 * time.Second)
		cfg := config(3, f.host(3))
		cfg.Key = key(2)
		again := start(t, cfg)
		if _, err := again.Join(context.Background(), []netip.AddrPort{nodes[0].net.addrPort()}); err == nil {
			t.Fatal("it joined")
		}
		if w, _ := nodes[0].warned("gossip-secret"); !strings.Contains(w.Text, "node-3 (10.0.0.3)") {
			t.Errorf("the warning is %q", w.Text)
		}
	})
}

func TestWarningEndsTenMinutesAfterItsCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := keyed(t, f, 1, key(1))
		cfg := config(9, f.host(9))
		cfg.Key = key(2)
		stranger := start(t, cfg)
		stranger.Join(context.Background(), []netip.AddrPort{nodes[0].net.addrPort()})
		time.Sleep(9 * time.Minute)
		if _, ok := nodes[0].warned("gossip-secret"); !ok {
			t.Error("forgotten after 9 minutes")
		}
		time.Sleep(2 * time.Minute)
		if _, ok := nodes[0].warned("gossip-secret"); ok {
			t.Error("still there after 11 minutes")
		}
	})
}

// TestOpenMeshBecomesASecuredOne restarts one node after the other, step by step, and nobody is lost at any time.
func TestOpenMeshBecomesASecuredOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := keyed(t, f, 3, nil)
		for _, step := range []serf.Enforce{serf.EnforceNone, serf.EnforceOutgoing, serf.EnforceFull} {
			for i := range nodes {
				nodes[i].leave()
				cfg := config(i+1, f.host(i+1))
				cfg.Key, cfg.Enforce = key(1), step
				nodes[i] = start(t, cfg)
				nodes[i].join(nodes[(i+1)%3])
				waitAll(t, nodes, time.Minute)
				time.Sleep(time.Minute)
				waitAll(t, nodes, time.Second)
			}
		}
		open := start(t, config(9, f.host(9)))
		if met, _ := open.Join(context.Background(), []netip.AddrPort{nodes[0].net.addrPort()}); met != 0 {
			t.Error("a node without the secret still joins")
		}
	})
}

func TestKeyIsChangedWithoutABreak(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		f := newFabric()
		nodes := keyed(t, f, 3, key(1))
		each := func(what string, act func(*node) error) {
			for _, n := range nodes {
				if err := act(n); err != nil {
					t.Fatalf("%s at %s: %v", what, n.id, err)
				}
				time.Sleep(30 * time.Second)
				waitAll(t, nodes, time.Second)
			}
		}
		each("installing", func(n *node) error { return n.InstallKey(ctx, key(2)) })
		each("using", func(n *node) error { return n.UseKey(ctx, key(2)) })
		each("removing", func(n *node) error { return n.RemoveKey(ctx, key(1)) })

		for k, want := range map[byte]int{1: 0, 2: 1} {
			cfg := config(20+int(k), f.host(20+int(k)))
			cfg.Key = key(k)
			late := start(t, cfg)
			if met, err := late.Join(ctx, []netip.AddrPort{nodes[0].net.addrPort()}); met != want {
				t.Errorf("a node with key %d: %d met, %v", k, met, err)
			}
		}
		noKeys(t, nodes, key(1), key(2))
	})
}

func TestNodeWithThePreviousKeyUnderstandsBoth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := keyed(t, f, 2, key(1))
		cfg := config(9, f.host(9))
		cfg.Key, cfg.Prev = key(1), key(2)
		nodes = append(nodes, start(t, cfg))
		nodes[2].join(nodes[0])
		waitAll(t, nodes, time.Minute)
		if err := nodes[2].InstallKey(context.Background(), key(3)); err == nil || !strings.Contains(err.Error(), "two already") {
			t.Errorf("a third key: %v", err)
		}
	})
}

func TestKeysAreRefusedWithTheWayOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		f := newFabric()
		open := start(t, config(1, f.host(1)))
		secured := keyed(t, f, 1, key(1))[0]
		for what, c := range map[string]struct {
			err   error
			words string
		}{
			"open mesh":     {open.InstallKey(ctx, key(2)), "open"},
			"short key":     {secured.InstallKey(ctx, key(2)[:31]), "31 bytes"},
			"not installed": {secured.UseKey(ctx, key(2)), "install it everywhere first"},
			"in use":        {secured.RemoveKey(ctx, key(1)), "use another one first"},
		} {
			if c.err == nil || !strings.Contains(c.err.Error(), c.words) {
				t.Errorf("%s: %v", what, c.err)
			}
		}
	})
}
