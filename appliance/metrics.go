package appliance

import (
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"viiwork/appliance/status"
)

// metric describes one; its name says its unit.
func metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("viiwork_"+name, help, labels, nil)
}

// mountMetrics adds GET /metrics. It needs no slot.
func (a *Appliance) mountMetrics(e *echo.Echo) {
	all := prometheus.NewRegistry()
	all.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		cacheMetrics{func() status.KV { return a.caches.share.Report(a.current().Node.Name) }},
		nodeMetrics{a}, a.tallies)
	e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})))
}

// mostNames is how many models, nodes and the like are told apart in what is counted.
const mostNames = 64

// other stands for all that are not told apart.
const other = "other"

// names bounds the values of a label: clients, members and engines say what they like, and each value is kept for the life of
// the process.
type names struct {
	mu   sync.Mutex
	seen map[string]bool
}

func newNames(known ...string) *names {
	n := &names{seen: map[string]bool{}}
	for _, name := range known {
		n.seen[name] = true
	}
	return n
}

// of gives the name as a label may have it. known tells whether there is such a thing at all; nil = there is.
func (n *names) of(name string, known func(string) bool) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen[name] {
		return name
	}
	if name == "" || len(n.seen) >= mostNames || strings.ToValidUTF8(name, "") != name || known != nil && !known(name) {
		return other
	}
	n.seen[strings.Clone(name)] = true
	return name
}
