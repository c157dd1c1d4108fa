package appliance

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"viiwork/appliance/gateway"
	"viiwork/appliance/status"
)

// traces tells a collector how each request went, after it has ended. A nil one tells nobody.
//
// The ids are made from the request's own id, which both nodes of a forward have: what they tell joins into one trace
// without a word between them, and a client's header has no say in it.
type traces struct {
	endpoint, node, version string
	log                     *slog.Logger
	tracer                  atomic.Pointer[trace.Tracer] // nil before it runs, and after
}

// newTraces makes one that sends to the collector at an address such as http://collector:4318; "" = none.
func newTraces(endpoint, node, version string, log *slog.Logger) *traces {
	if endpoint == "" {
		return nil
	}
	return &traces{endpoint: endpoint, node: node, version: version, log: log}
}

const (
	// lastBatch is how long the end waits for the collector.
	lastBatch = 3 * time.Second
	// sayUntold is how often a collector that does not answer is mentioned.
	sayUntold = 10 * time.Minute
)

// run sends until ctx ends. What the collector does not take is dropped: nothing here waits for it.
func (t *traces) run(ctx context.Context) error {
	if t == nil {
		<-ctx.Done()
		return nil
	}
	t.complain()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(t.endpoint), otlptracehttp.WithURLPath("/v1/traces"))
	if err != nil {
		return fmt.Errorf("preparing to send traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(givenIDs{}), sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "viiwork"), attribute.String("service.version", t.version), attribute.String("service.instance.id", t.node))))
	tracer := provider.Tracer("viiwork")
	t.tracer.Store(&tracer)
	<-ctx.Done()
	t.tracer.Store(nil)
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastBatch)
	defer cancel()
	if err := provider.Shutdown(wait); err != nil {
		t.log.Debug("the last traces were not told", "error", err)
	}
	return nil
}

// complain takes the library's errors, which it tells one function of the process.
func (t *traces) complain() {
	var last atomic.Int64
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now := time.Now().UnixNano()
		if before := last.Load(); (before == 0 || now-before > int64(sayUntold)) && last.CompareAndSwap(before, now) {
			t.log.Warn("traces do not reach the collector", "endpoint", t.endpoint, "error", err)
		}
	}))
}

// ended tells of a request that this node has done with.
func (t *traces) ended(r status.Request, c gateway.Course) {
	if t == nil {
		return
	}
	tracer := t.tracer.Load()
	if tracer == nil {
		return
	}
	s := spans{tracer: *tracer, id: r.ID, node: t.node}
	ctx := context.Background()
	if r.Entry != t.node { // it came from a member, whose forward this is a part of
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: traceID(r.ID), SpanID: spanID(r.ID, r.Entry, "forward"), TraceFlags: trace.FlagsSampled, Remote: true}))
	}
	ctx, root := s.begin(ctx, "request", c.Came, about(r)...)
	if r.Error != "" {
		root.SetStatus(codes.Error, r.Error)
	}
	s.part(ctx, "receive", c.Came, c.Read)
	s.part(ctx, "route", c.Read, c.Planned)
	s.part(ctx, "wait", later(c.Read, c.Planned), c.Placed)
	if s.part(ctx, "forward", c.Forwarded, c.Ended); c.Forwarded.IsZero() {
		s.part(ctx, "prefill", c.Placed, c.First)
		s.part(ctx, "decode", c.First, c.Ended)
	}
	root.End(trace.WithTimestamp(c.Ended))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// about is what a trace tells of a request: no session, no task, no word of it.
func about(r status.Request) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("viiwork.request", r.ID), attribute.String("viiwork.entry", r.Entry), attribute.String("viiwork.node", r.Node), attribute.String("viiwork.backend", r.Backend),
		attribute.String("viiwork.model", r.Model), attribute.String("viiwork.reason", r.Reason), attribute.Int("http.response.status_code", r.Status), attribute.String("http.route", r.Path),
	}
	for _, n := range []struct {
		key string
		v   *int
	}{{"viiwork.tokens.prompt", r.PromptTokens}, {"viiwork.tokens.cached", r.CachedTokens}, {"viiwork.tokens.output", r.OutputTokens}} {
		if n.v != nil {
			all = append(all, attribute.Int(n.key, *n.v))
		}
	}
	return all
}

// spans are those of one request at one node.
type spans struct {
	tracer   trace.Tracer
	id, node string
}

type idsKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

func (s spans) begin(ctx context.Context, name string, at time.Time, about ...attribute.KeyValue) (context.Context, trace.Span) {
	ctx = context.WithValue(ctx, idsKey{}, ids{traceID(s.id), spanID(s.id, s.node, name)})
	return s.tracer.Start(ctx, name, trace.WithTimestamp(at), trace.WithAttributes(about...))
}

// part is one of a request's, unless the request did not get so far.
func (s spans) part(ctx context.Context, name string, from, to time.Time) {
	if from.IsZero() || to.IsZero() || to.Before(from) {
		return
	}
	_, span := s.begin(ctx, name, from)
	span.End(trace.WithTimestamp(to))
}

// givenIDs is the library's way to be told ids: they come with the context.
type givenIDs struct{}

func (givenIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	given, _ := ctx.Value(idsKey{}).(ids)
	return given.trace, given.span
}

func (givenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	given, _ := ctx.Value(idsKey{}).(ids)
	return given.span
}

func traceID(request string) (id trace.TraceID) {
	sum := sha256.Sum256([]byte("viiwork trace " + request))
	copy(id[:], sum[:])
	return id
}

func spanID(request, node, name string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte("viiwork span " + request + "\n" + node + "\n" + name))
	copy(id[:], sum[:])
	return id
}
