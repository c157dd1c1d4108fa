package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"viiwork/appliance/config"
	"viiwork/engine/gguf"
)

// checkClock catches a clock that was never set: certificates and signed messages between nodes depend on it.
func checkClock(env Probe) Check {
	const id = "clock"
	now := env.Now()
	earliest := env.Built
	if earliest.IsZero() {
		earliest = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	// A day's grace for a build machine whose own clock ran ahead.
	if now.Before(earliest.Add(-24*time.Hour)) || now.Year() > earliest.Year()+50 {
		return fault(Fail, id, [3]string{"the clock is wrong: " + now.UTC().Format(time.RFC3339),
			"this program was made at " + earliest.UTC().Format(time.RFC3339), "set the clock: 'timedatectl set-ntp true'"})
	}
	return ok(id, "the clock is plausible: "+now.UTC().Format(time.RFC3339))
}

// checkMemory adds up what engines may take of RAM. The weights of a model on cards are left out: they pass through. So is a
// prompt cache of which the configuration says nothing: it gets what is left.
func checkMemory(cfg *config.Config, env Probe) Check {
	const id = "memory"
	var caches, weights int64
	counted := map[string]bool{} // engines map the file: several backends of one model share its pages
	for i, m := range cfg.Models {
		if m.Llamacpp.Runner == "external" {
			continue
		}
		if cfg.IsSet(config.PromptCacheKey(i)) {
			caches += m.Llamacpp.PromptCache * int64(len(m.Backends()))
		}
		if len(m.GPUs) == 0 && !counted[m.Path] {
			counted[m.Path] = true
			if file, err := gguf.Read(m.Path); err == nil { // a broken one is named by its own check
				weights += file.Size
			}
		}
	}
	if caches+weights == 0 {
		return skip(id, "no engine of ours needs memory")
	}
	memory, err := env.Memory()
	if err != nil {
		return skip(id, "the size of memory is unknown: "+err.Error())
	}
	sum := fmt.Sprintf("prompt caches %s, weights of models without a card %s, memory %s", bytesWord(caches), bytesWord(weights), bytesWord(memory))
	if caches+weights > memory*9/10 {
		return fault(Warn, id, [3]string{"the engines may want more memory than there is", sum, "lower llamacpp.prompt_cache, or serve fewer models"})
	}
	return ok(id, sum)
}

// checkPorts binds what serve would bind. A port that the running node itself holds is as it should be.
func checkPorts(cfg *config.Config, env Probe, running bool) []Check {
	var checks []Check
	for _, want := range cfg.Addresses() {
		addr := want.Addr
		id := "port:" + addr
		err := env.Listen(addr)
		switch {
		case err == nil && running:
			checks = append(checks, fault(Warn, id, [3]string{"the running node does not listen on " + addr, "it was started with another configuration", "restart it"}))
		case err == nil:
			checks = append(checks, ok(id, addr+" is free"))
		case running && errors.Is(err, syscall.EADDRINUSE):
			checks = append(checks, ok(id, addr+" is held by the running node"))
		case errors.Is(err, syscall.EADDRINUSE):
			checks = append(checks, fault(Fail, id, [3]string{addr + " is taken", "another program listens there: 'ss -ltnp' names it", "end that program, or change api.port"}))
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			checks = append(checks, fault(Fail, id, [3]string{addr + " is no address of this machine", err.Error(), "correct api.host"}))
		case errors.Is(err, os.ErrPermission):
			checks = append(checks, fault(Fail, id, [3]string{addr + " may not be used by this user", err.Error(), "use a port above 1023"}))
		default:
			checks = append(checks, fault(Fail, id, [3]string{addr + " cannot be listened on", err.Error(), "correct api.host, api.port and api.local"}))
		}
	}
	if len(checks) == 0 { // on a tailnet only: a lan always has its address
		checks = append(checks, fault(Warn, "port", [3]string{"programs of this machine reach the node by its socket only", "api.local is empty, and the tailnet's addresses are not this machine's own", "set api.local: 127.0.0.1:8086, unless it is meant so"}))
	}
	return checks
}

// checkNode asks the running node. None running is no fault: the doctor is for that time too.
func checkNode(ctx context.Context, env Probe) (running bool, found Check) {
	const id = "node"
	if env.Node == nil {
		return false, skip(id, "the node cannot be asked")
	}
	if err := env.Node(ctx); err != nil {
		return false, skip(id, "not running: "+err.Error())
	}
	return true, ok(id, "running, and answers")
}
