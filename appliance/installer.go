package appliance

import "context"

// Installer changes this machine's program. Its methods may be called from any goroutine.
type Installer interface {
	// Newest names the newest proved release that the node's source has; "" = none.
	Newest(ctx context.Context) (version string, err error)
	// Install proves a release, tries it and makes it ready to take the place of the program that runs. It restarts nothing.
	Install(ctx context.Context, o InstallOrder) error
	// Restart has the node end and be started anew with what was installed, on trial. It returns once that is under way.
	Restart(ctx context.Context) error
	// Installed tells how things stand.
	Installed() Installed
}

// InstallOrder is what an Installer shall install.
type InstallOrder struct {
	Version string
	Named   bool                   // a person named the version: also one that was taken back before
	Said    func(done, size int64) // how much of it has come, in bytes
}

// Installed is how a machine stands with its program.
type Installed struct {
	Refuses string // why nothing can be installed here from elsewhere; "" = it can
	Trial   string // what is on trial or will be from the next start on, and how far, in words; "" = nothing
	Bad     string // the version that was last taken back
	Back    int64  // when, in Unix milliseconds
	BackWhy string
}
