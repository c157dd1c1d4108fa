package appliance

import (
	"cmp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"viiwork/appliance/gateway"
	"viiwork/appliance/history"
	"viiwork/appliance/status"
)

// tallies counts what has become of requests. Each is counted at the node where it came in, or the sum over a mesh's nodes
// would count what was forwarded twice.
type tallies struct {
	node   string
	served func(model string) bool // some node has it

	models, nodes, reasons, codes *names

	requests, faults, refusals *prometheus.CounterVec
	prompt, cached, output     *prometheus.CounterVec
	queue, ttft, guess         *prometheus.HistogramVec
	forward, imports           *prometheus.HistogramVec
}

// Bounds of the histograms, in seconds: an answer from a warm cache begins after some 100 ms, a long prompt may take minutes.
var (
	secondBounds = []float64{.05, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60, 120, 300}
	ratioBounds  = []float64{.1, .25, .5, .67, .8, .9, 1, 1.1, 1.25, 1.5, 2, 4, 10}
)

func newTallies(node string, served func(string) bool) *tallies {
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "viiwork_" + name, Help: help}, labels)
	}
	spread := func(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "viiwork_" + name, Help: help, Buckets: bounds}, labels)
	}
	return &tallies{
		node: node, served: served,
		models: newNames(), nodes: newNames(node), codes: newNames(),
		reasons:  newNames("pinned", "only", "home", "wait", "move", "cold", "import", "pull"),
		requests: count("requests_total", "Requests that came in by this node and have ended, by HTTP status and by why they went where they went.", "model", "code", "reason"),
		faults:   count("request_errors_total", "Those of them that ended with an error, by the error's code.", "model", "error"),
		refusals: count("seat_refusals_total", "Seats that members were asked for and did not give.", "node", "error"),
		prompt:   count("prompt_tokens_total", "Tokens of prompts, those found in caches among them.", "model"),
		cached:   count("cached_tokens_total", "Tokens of prompts that were found in caches.", "model"),
		output:   count("output_tokens_total", "Tokens of answers.", "model"),
		queue:    spread("request_queue_seconds", "How long requests waited for a slot.", secondBounds, "model"),
		ttft:     spread("request_ttft_seconds", "From a request's arrival to its first token, by where it ran and by how much of its prompt was cached.", secondBounds, "model", "node", "cache"),
		guess:    spread("request_ttft_real_to_predicted_ratio", "The real time to the first token divided by what the plan had said.", ratioBounds, "model"),
		forward:  spread("forward_first_byte_seconds", "From sending a request to a member to the begin of its answer.", secondBounds, "node"),
		imports:  spread("kv_import_phase_seconds", "How long the parts of bringing a cache into an engine took.", secondBounds, "phase"),
	}
}

func (t *tallies) parts() []prometheus.Collector {
	return []prometheus.Collector{t.requests, t.faults, t.refusals, t.prompt, t.cached, t.output, t.queue, t.ttft, t.guess, t.forward, t.imports}
}

// Describe and Collect make it a prometheus.Collector.
func (t *tallies) Describe(to chan<- *prometheus.Desc) {
	for _, p := range t.parts() {
		p.Describe(to)
	}
}

func (t *tallies) Collect(to chan<- prometheus.Metric) {
	for _, p := range t.parts() {
		p.Collect(to)
	}
}

// ear is how the gateway tells it, and also what has become of a request.
func (t *tallies) ear(also func(status.Request, gateway.Course)) gateway.Ear {
	return gateway.Ear{
		Ended: func(r status.Request, c gateway.Course) {
			t.ended(r)
			also(r, c)
		},
		Forwarded: func(node string, took time.Duration) {
			t.forward.WithLabelValues(t.nodes.of(node, nil)).Observe(took.Seconds())
		},
		Unseated: func(node, code string) {
			if code == "" {
				code = "unreachable"
			}
			t.refusals.WithLabelValues(t.nodes.of(node, nil), t.codes.of(code, nil)).Inc()
		},
	}
}

func (t *tallies) imported(phase string, took time.Duration) {
	t.imports.WithLabelValues(phase).Observe(took.Seconds())
}

// ended counts a request that came in by this node.
func (t *tallies) ended(r status.Request) {
	if r.Entry != t.node {
		return
	}
	model, reason := t.models.of(r.Model, t.served), "none"
	if r.Reason != "" {
		reason = t.reasons.of(r.Reason, never)
	}
	t.requests.WithLabelValues(model, statusCode(r.Status), reason).Inc()
	if r.Error != "" {
		t.faults.WithLabelValues(model, t.codes.of(r.Error, nil)).Inc()
	}
	tokens(t.prompt.WithLabelValues(model), r.PromptTokens)
	tokens(t.cached.WithLabelValues(model), r.CachedTokens)
	tokens(t.output.WithLabelValues(model), r.OutputTokens)
	if r.QueueMS != nil {
		t.queue.WithLabelValues(model).Observe(*r.QueueMS / 1000)
	}
	if r.TTFTMS == nil {
		return
	}
	t.ttft.WithLabelValues(model, t.nodes.of(r.Node, nil), cmp.Or(history.Class(r), "unknown")).Observe(*r.TTFTMS / 1000)
	if p := r.PredictedTTFTMS; p != nil && *p > 0 {
		t.guess.WithLabelValues(model).Observe(*r.TTFTMS / *p)
	}
}

// never is for labels whose values are known beforehand.
func never(string) bool { return false }

// tokens adds what is known: what is not, is not 0.
func tokens(to prometheus.Counter, n *int) {
	if n != nil && *n > 0 {
		to.Add(float64(*n))
	}
}

func statusCode(code int) string {
	if code < 100 || code > 599 {
		return other
	}
	return strconv.Itoa(code)
}
