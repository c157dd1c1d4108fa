package main

import (
	"context"
	"net/http"
	"path/filepath"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/update"
	"viiwork/update/install"
)

// installer is what replaces this program while a roll-out of the mesh goes on: the same as 'viiwork update' here.
type installer struct {
	c        *cli
	cfg      *config.Config // it started with: what is looked for, and where, is read then
	path     string
	versions *install.Versions // nil = this program does not lie among versions
	refuses  string
}

// newInstaller finds what there is to replace: the program in a folder of versions, or the container that it runs in.
func (c *cli) newInstaller(ctx context.Context, cfg *config.Config, path string) appliance.Installer {
	i := &installer{c: c, cfg: cfg}
	var err error
	if i.path, err = filepath.Abs(path); err == nil {
		_, err = c.updater(cfg, updateFlags{})
	}
	if err == nil {
		i.versions, _, err = installed()
	}
	if err == nil && i.versions == nil && ofSetup() == "" {
		if box := c.newBoxInstaller(ctx, cfg, i.path); box != nil {
			return box
		}
	}
	switch {
	case err != nil:
		i.refuses = err.Error()
	case i.versions == nil: // finding out whose it is may take seconds
		i.refuses = "its program does not lie in a folder of versions: 'viiwork update' there says what to do"
	case !restarts(c.getenv):
		i.refuses = "nothing starts that node again when it ends: run 'viiwork update' there, and start it anew"
	}
	return i
}

// updating is one update of this node; the node's own log tells of it, and no terminal.
func (i *installer) updating(o appliance.InstallOrder) (*updating, error) {
	from, err := i.versions.Current()
	if err != nil {
		return nil, err
	}
	quiet := *i.c
	quiet.quiet, quiet.yes = true, true
	f := updateFlags{asJSON: true}
	if o.Named {
		f.to = o.Version
	}
	return &updating{c: &quiet, flags: f, cfg: i.cfg, path: i.path, versions: i.versions, from: from, node: i.c.nodeOf(i.cfg)}, nil
}

func (i *installer) Newest(ctx context.Context) (string, error) { return i.c.newest(ctx, i.cfg) }

func (i *installer) Install(ctx context.Context, o appliance.InstallOrder) error {
	found, err := i.c.verified(ctx, i.cfg, o.Version)
	if err != nil {
		return err
	}
	u, err := i.updating(o)
	if err != nil {
		return err
	}
	return i.versions.Install(ctx, found, u.order(func(p install.Progress) { o.Said(p.Bytes, p.Size) }))
}

// newest is the version of the newest proved release.
func (c *cli) newest(ctx context.Context, cfg *config.Config) (string, error) {
	u, err := c.updater(cfg, updateFlags{})
	if err != nil {
		return "", err
	}
	offer, err := u.Check(ctx)
	return offer.Version, err
}

// verified is the release of a version, which is no older than what was seen before.
func (c *cli) verified(ctx context.Context, cfg *config.Config, version string) (*update.Verified, error) {
	u, err := c.updater(cfg, updateFlags{})
	if err != nil {
		return nil, err
	}
	found, _, err := u.Find(ctx, version, false)
	return found, err
}

// Restart wishes the end of this run, and has the old program judge the next one.
func (i *installer) Restart(ctx context.Context) error {
	u, err := i.updating(appliance.InstallOrder{})
	if err != nil {
		return err
	}
	body, err := u.node.call(ctx, http.MethodPost, "/api/update/restart", struct{}{})
	if err != nil {
		return err
	}
	body.Close()
	return u.startJudge()
}

func (i *installer) Installed() (is appliance.Installed) {
	is.Refuses = i.refuses
	if i.versions == nil {
		return is
	}
	s, err := i.versions.State()
	if err != nil {
		is.Refuses = err.Error()
		return is
	}
	if s.Trial != nil && s.Trial.Config == i.path {
		is.Trial = trialText(*s.Trial)
	}
	tellBad(&is, s.Bad)
	return is
}

// tellBad names the one that was taken back last.
func tellBad(is *appliance.Installed, all []install.Bad) {
	if n := len(all); n > 0 {
		is.Bad, is.Back, is.BackWhy = all[n-1].Version, all[n-1].Time.UnixMilli(), all[n-1].Why
	}
}
