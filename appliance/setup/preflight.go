package setup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"viiwork/engine/docker"
	"viiwork/engine/gpu"
	"viiwork/images"
)

// Needs is what a node is going to want of a machine that has no configuration yet.
type Needs struct {
	Port, Gossip int    // api.port, mesh.bind_port
	Host         string // the address of both; "" = all
	StateDir     string
	NoDocker     bool // engines are programs of this machine
}

// Preflight looks whether a machine has what a node needs, before anybody is asked about models. It changes nothing.
func Preflight(ctx context.Context, n Needs, env Probe) []Check {
	env = env.orReal(nil)
	checks := []Check{checkClock(env)}
	cards, faults := env.Cards(ctx)
	if !n.NoDocker {
		daemon := checkDaemon(ctx, env)
		checks = append(checks, daemon)
		if daemon.State == OK {
			checks = append(checks, checkFirstCards(ctx, env, cards)...)
		}
	}
	for _, f := range faults {
		checks = append(checks, fault(Warn, "gpu:"+f.ID, [3]string{f.Text, causeOf(f), f.Fix}))
	}
	for _, port := range []int{n.Port, n.Gossip} {
		checks = append(checks, checkFree(env, net.JoinHostPort(n.Host, fmt.Sprint(port))))
	}
	return append(checks, checkRoom(n.StateDir, env))
}

func checkDaemon(ctx context.Context, env Probe) Check {
	const id = "docker"
	if err := env.Docker(ctx); err != nil {
		return fault(Fail, id, [3]string{"no engine can be started in a container", err.Error(), "do as the cause says; or serve with a llama-server of this machine (engine.runner: native)"})
	}
	return ok(id, "Docker answers this user")
}

// checkFirstCards looks whether a container is given NVIDIA cards. AMD's are files that Docker hands on as it is. It takes an
// image to see that, and none is fetched for it.
func checkFirstCards(ctx context.Context, env Probe, cards []gpu.Card) []Check {
	if !hasNVIDIA(cards) {
		return nil
	}
	ref, err := images.Resolve("cuda")
	if err == nil {
		err = env.Image(ctx, ref)
	}
	if err != nil {
		return []Check{skip("gpu:"+handedOn, "whether Docker hands NVIDIA cards to containers shows once their image is here: 'viiwork images pull cuda', then 'viiwork doctor'")}
	}
	return []Check{handOnce(ctx, env, ref)}
}

// checkFree takes the port for a moment. One that another node of this machine has is told by what it answers.
func checkFree(env Probe, addr string) Check {
	id := "port:" + addr
	err := env.Listen(addr)
	switch {
	case err == nil:
		return ok(id, addr+" is free")
	case errors.Is(err, syscall.EADDRINUSE):
		return fault(Fail, id, [3]string{addr + " is taken", "another program listens there, perhaps another viiwork",
			"'ss -ltnp' shows it: stop it, or choose another port (api.port, mesh.bind_port)"})
	}
	return fault(Fail, id, [3]string{addr + " cannot be listened on", err.Error(), "choose another port, or an address that this machine has"})
}

// checkRoom looks at the disk on which the state directory is to be.
func checkRoom(dir string, env Probe) Check {
	const id = "disk"
	at := existing(dir)
	free, err := env.Free(at)
	if err != nil {
		return fault(Warn, id, [3]string{"the free space below " + at + " is not known", err.Error(), "look with 'df " + at + "'"})
	}
	if free < roomWanted {
		return fault(Warn, id, [3]string{"the disk of " + dir + " is nearly full", fmt.Sprintf("%s left, %s wanted", bytesWord(free), bytesWord(roomWanted)),
			"make room, or choose another node.state_dir"})
	}
	return ok(id, fmt.Sprintf("%s left for %s", bytesWord(free), dir))
}

// pingDocker is the real world's.
func pingDocker(ctx context.Context) error {
	runner := docker.New(docker.Config{Node: "doctor", StateDir: "/nonexistent"})
	defer runner.Close()
	return runner.Ping(ctx)
}
