package engine

// State is where a backend is in its life.
type State string

const (
	StateStarting   State = "starting"   // waiting its turn to load, or its process is being made
	StateLoading    State = "loading"    // the process runs, the model is being read
	StateReady      State = "ready"      // has answered a real request
	StateBusy       State = "busy"       // does not answer its health check, yet tokens flow: alive
	StateSilent     State = "silent"     // neither answers nor works; about to be restarted
	StateRestarting State = "restarting" // ended; waits out its backoff
	StateFailed     State = "failed"     // a restart alone cannot mend it; tried again now and then
	StateDraining   State = "draining"   // takes no more requests, about to be stopped
)
