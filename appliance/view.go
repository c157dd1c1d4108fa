package appliance

import (
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/status"
)

const (
	// viewPath is what members ask for what only this node knows of itself, for their pages.
	viewPath = "/v1/view"
	// shownEnded is how many ended requests a node tells of, beside all that run, when it is asked for the first time; newlyEnded
	// when it is asked again, a second later. lately is the time in which refusals count.
	shownEnded = 60
	newlyEnded = 12
	lately     = 10 * time.Minute
	// remembered is more than the gateway's rows.
	remembered = 1 << 12
)

// view is what this node tells of itself, with so many of the requests that have ended.
func (a *Appliance) view(most int) status.View {
	v := status.View{
		Node: a.Status(), Started: a.started, Time: time.Now(), KV: a.caches.share.Report(a.current().Node.Name),
		Requests: []status.Request{}, Firsts: a.past.Firsts(), Uses: a.past.Uses(a.current().Node.Name), Refused: map[string]int{},
	}
	v.Node.Members = []status.Member{}
	ended := 0
	for _, r := range a.gateway.Requests(remembered) {
		if r.Entry == v.Node.Node && noSlot(r) && time.Since(r.Time) < lately {
			v.Refused[r.Model]++
		}
		if r.State == "done" {
			if ended++; ended > most {
				continue
			}
		}
		v.Requests = append(v.Requests, r)
	}
	v.Power = a.past.Power(v.Node.GPUs)
	return v
}

// noSlot tells a request that was refused for want of one.
func noSlot(r status.Request) bool { return r.Error == "queue_timeout" || r.Error == "queue_full" }

// mountView adds what members ask for. Each answer is signed.
func (a *Appliance) mountView(e *echo.Echo) {
	e.GET(viewPath, a.tellMember(func(q url.Values) (any, bool) {
		most := shownEnded
		if q.Get("again") != "" {
			most = newlyEnded
		}
		return a.view(most), true
	}))
	e.GET(pastPath, a.tellMember(func(q url.Values) (any, bool) { return a.series(q), true }))
	e.GET(requestPath, a.tellMember(func(q url.Values) (any, bool) { r, known := a.gateway.Request(q.Get("id")); return r, known }))
}
