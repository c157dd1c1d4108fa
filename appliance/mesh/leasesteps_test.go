package mesh_test

import (
	"errors"
	"time"

	"viiwork/appliance/mesh"
)

// step is one thing that may happen.
type step struct {
	what string
	n    int // of an ask, or of an entry
}

// steps lists all that may happen now.
func (w *leaseWorld) steps() (all []step) {
	may := func(what string, n int, when bool) {
		if when {
			all = append(all, step{what, n})
		}
	}
	for i, j := range w.journeys {
		lives, loses := !w.died[j.entry], !w.reliable
		may("ask", i, lives && j.entryAt == atStart)
		may("cancel", i, lives && j.entryAt >= atAsked && j.entryAt < atEnd)
		may("forward", i, lives && j.entryAt == atGranted)
		may("ask comes", i, j.ask)
		may("ask is lost", i, loses && j.ask)
		may("answer comes", i, j.answer)
		may("answer is lost", i, loses && j.answer)
		may("forward comes", i, j.forward)
		may("forward is lost", i, loses && j.forward)
		may("return comes", i, j.giveBack)
		may("return is lost", i, loses && j.giveBack)
		may("close comes", i, j.closeAsk && !j.ask)
		may("close is lost", i, loses && j.closeAsk)
		may("hang-up comes", i, j.hangUp && !j.forward)
		may("hang-up is lost", i, loses && j.hangUp)
		may("join", i, j.handler == handlerEntered)
		may("look", i, j.handler == handlerStands && (j.handlerEnds || isClosed(j.place.Done())))
		may("time is over", i, j.handler == handlerStands && !isClosed(j.place.Done()))
		may("handing over fails", i, w.fragile && j.own && j.handler == handlerEnded)
		may("finish", i, j.runs != nil)
	}
	seats, _, _ := w.book.Holds()
	may("a second passes", 0, len(seats) > 0)
	for e := range 2 {
		_, dead := w.heardAt[e]
		may("die", e, !w.died[e] && w.deaths > 0)
		may("long silence", e, dead && w.died[e] && w.now.Sub(w.heardAt[e]) < 9*time.Second)
		may("lost", e, dead && w.died[e] && w.now.Sub(w.heardAt[e]) >= 9*time.Second && w.now.Sub(w.heardAt[e]) < mesh.LostAfter)
		may("come back", e, w.died[e] && w.reborn)
	}
	may("owner restarts", 0, w.restarts > 0)
	return all
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// do takes one step.
func (w *leaseWorld) do(s step) {
	j := w.journeys[min(s.n, len(w.journeys)-1)]
	switch s.what {
	case "ask":
		j.entryAt, j.ask = atAsked, true
	case "cancel":
		j.cancel()
	case "forward":
		j.entryAt, j.forward = atForwarded, true
	case "ask comes":
		j.ask = false
		w.enter(j)
	case "ask is lost":
		j.ask, j.closeAsk = false, false
		j.giveUpOn(atAsked)
	case "answer comes", "answer is lost":
		j.answer = false
		if j.entryAt == atAsked && s.what == "answer comes" && !w.died[j.entry] {
			j.entryAt = atGranted
		}
		j.giveUpOn(atAsked)
	case "forward comes":
		j.forward = false
		w.arrive(j)
	case "forward is lost":
		j.forward, j.hangUp = false, false
		j.giveUpOn(atForwarded)
	case "return comes":
		j.giveBack = false
		w.returned(j)
	case "return is lost":
		j.giveBack = false
	case "close comes":
		j.closeAsk = false
		if j.handler == handlerEntered || j.handler == handlerStands {
			w.drop(j)
		}
	case "close is lost":
		j.closeAsk = false
	case "hang-up comes":
		j.hangUp = false
		w.finish(j)
	case "hang-up is lost":
		j.hangUp = false
	case "join":
		w.join(j)
	case "look":
		w.look(j)
	case "handing over fails": // or so it seems to the owner
		j.own = false
		w.book.Drop(j.claim).GiveUp(errors.New("not handed over"))
	case "time is over":
		w.drop(j)
		j.giveUpOn(atAsked)
	case "finish":
		w.finish(j)
	default:
		w.doWorld(s)
	}
}

// doWorld takes a step that is not one ask's.
func (w *leaseWorld) doWorld(s step) {
	switch s.what {
	case "a second passes":
		w.pass(time.Second)
	case "die":
		w.died[s.n], w.heardAt[s.n] = true, w.now
		w.deaths--
	case "long silence":
		w.pass(w.heardAt[s.n].Add(9 * time.Second).Sub(w.now))
	case "lost":
		w.pass(w.heardAt[s.n].Add(mesh.LostAfter).Sub(w.now))
	case "come back":
		delete(w.died, s.n)
		delete(w.heardAt, s.n)
		for _, j := range w.journeys {
			if j.entry == s.n && j.entryAt != atStart {
				j.entryAt = atEnd
			}
		}
	case "owner restarts":
		w.restarts--
		w.open()
		for _, j := range w.journeys {
			if j.entryAt == atAsked && !j.ask && !j.answer || j.entryAt == atForwarded && !j.forward {
				j.entryAt = atEnd
			}
			if j.handler != handlerNone {
				j.handler = handlerEnded
			}
			j.claim, j.place, j.runs, j.own, j.closeAsk, j.hangUp = nil, nil, nil, false, j.closeAsk && j.ask, j.hangUp && j.forward
		}
	}
}
