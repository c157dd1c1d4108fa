package top

import (
	"context"
	"sync"

	tea "charm.land/bubbletea/v2"
)

// jobs are what the screen has to wait for: the node's answers. It runs them beside the screen and ends them with it.
type jobs struct {
	run func(job func(context.Context) tea.Msg) tea.Msg

	mu   sync.Mutex
	over bool
	open sync.WaitGroup
}

func newJobs(ctx context.Context) *jobs {
	j := &jobs{}
	j.run = func(job func(context.Context) tea.Msg) tea.Msg {
		if !j.begin() {
			return nil
		}
		defer j.open.Done()
		return job(ctx)
	}
	return j
}

// begin is false once no more may begin.
func (j *jobs) begin() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.over {
		j.open.Add(1)
	}
	return !j.over
}

// do makes a command of a job.
func (j *jobs) do(job func(context.Context) tea.Msg) tea.Cmd {
	return func() tea.Msg { return j.run(job) }
}

// wait lets no more begin and waits for those that run; whoever calls it has ended their context.
func (j *jobs) wait() {
	j.mu.Lock()
	j.over = true
	j.mu.Unlock()
	j.open.Wait()
}
