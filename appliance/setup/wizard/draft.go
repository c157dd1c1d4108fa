package wizard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"viiwork/appliance/config"
	"viiwork/appliance/mesh"
	"viiwork/appliance/setup"
	"viiwork/engine/plan"
	"viiwork/images"
)

// Setup is what answers come to on a machine. Nothing of it has happened yet.
type Setup struct {
	Config  config.Config
	Secret  config.Secret // of the mesh; nil = an open one
	Began   bool          // the mesh: it is started by this machine
	Plan    plan.Plan
	Machine setup.Machine // with what starts the node there
	Files   []setup.File
	Notes   []string // for the owner, a sentence each
	Todo    []string // what must be done before the node can serve: it is not started until then

	picks []pick
}

// Draft says what the answers come to. The error is a [config.Faults] where the answers are wrong, or the machine cannot
// hold what they want.
func Draft(a Answers, s Sight) (Setup, error) {
	if faults := a.missing(); len(faults) > 0 {
		return Setup{}, faults
	}
	d, err := draftModels(a, s)
	if err != nil {
		return Setup{}, err
	}
	code, err := a.Mesh.code()
	if err != nil {
		return Setup{}, config.Faults{a.places.Fault("mesh.join", "%v", err)}
	}
	d.join(a.Mesh, code, s)
	if err := d.prove(a, s); err != nil {
		return Setup{}, err
	}
	d.notes(a, s)
	answers := setup.Answers{Config: d.Config, Secret: d.Secret, ConfigPath: s.Path, Image: ComposeImage, Variables: s.Variables}
	m := s.Machine
	if a.Service != "" {
		m.Manager = managerOf(a.Service)
	}
	if m.Manager == setup.Compose {
		d.Todo = append(d.Todo, s.Compose...)
	}
	var notes []string
	d.Machine = m
	d.Files, notes = setup.Files(m, answers)
	if err := writable(d.Files); err != nil {
		return Setup{}, err
	}
	d.Notes = append(d.Notes, notes...)
	return d, nil
}

// ComposeImage is the node's own image, which is made on the machine.
const ComposeImage = "viiwork:latest"

func managerOf(service string) setup.Manager {
	if service == serviceNone {
		return setup.ByHand
	}
	return setup.Manager(service)
}

// draftModels is the part of a draft that needs no mesh: the machine and its models.
func draftModels(a Answers, s Sight) (Setup, error) {
	d := Setup{Config: config.Default()}
	if s.Config != nil {
		d.Config = *s.Config
	}
	cfg := &d.Config
	cfg.Node.Name = cmp.Or(a.Node.Name, kept(s, func(c *config.Config) string { return c.Node.Name }), config.NodeName(s.Name))
	cfg.Node.StateDir = cmp.Or(a.Node.StateDir, kept(s, func(c *config.Config) string { return c.Node.StateDir }), s.Machine.Layout().StateDir)
	cfg.ModelsDir = cmp.Or(a.ModelsDir, cfg.ModelsDir)
	cfg.API.Port = cmp.Or(a.API.Port, cfg.API.Port)
	cfg.API.Host = cmp.Or(a.API.Host, cfg.API.Host)
	cfg.API.Local = cmp.Or(a.API.Local, cfg.API.Local)
	var faults config.Faults
	if d.picks, faults = a.picks(cfg.ModelsDir); len(faults) > 0 {
		return Setup{}, faults
	}
	d.Plan = s.lay(d.picks)
	for _, r := range d.Plan.Refusals {
		faults = append(faults, a.places.Fault(a.keyOf(r), "%s: %s", d.picks[r.Model].name, r.Text))
	}
	if len(faults) > 0 {
		return d, faults
	}
	cfg.Models = nil
	for _, p := range d.picks {
		i := slices.IndexFunc(d.Plan.Models, func(m plan.Model) bool { return m.Name == p.name })
		cfg.Models = append(cfg.Models, s.entry(p, d.Plan.Models[i], a.Engine))
	}
	return d, nil
}

func kept(s Sight, of func(*config.Config) string) string {
	if s.Config == nil {
		return ""
	}
	return of(s.Config)
}

// keyOf is where among the answers a refusal belongs.
func (a *Answers) keyOf(r plan.Refusal) string {
	key := fmt.Sprintf("models[%d].%s", r.Model, r.Key)
	if r.Key == "path" {
		key = fmt.Sprintf("models[%d].file", r.Model)
	}
	if a.places.IsSet(key) {
		return key
	}
	return fmt.Sprintf("models[%d]", r.Model)
}

// join sets what leads into the mesh.
func (d *Setup) join(a MeshAnswers, code *mesh.JoinCode, s Sight) {
	m := &d.Config.Mesh
	m.Network = cmp.Or(a.Network, m.Network)
	m.BindPort = cmp.Or(a.BindPort, m.BindPort)
	m.LAN.MDNS = m.LAN.MDNS && a.MDNS != "no" && a.MDNS != "false"
	m.Tailnet.Hostname = cmp.Or(a.Hostname, m.Tailnet.Hostname, "viiwork-"+d.Config.Node.Name)
	m.Tailnet.ControlURL = cmp.Or(a.ControlURL, m.Tailnet.ControlURL)
	m.Tailnet.AuthKey = ""
	if len(a.Tags) > 0 {
		m.Tailnet.Tags = a.Tags
	}
	if len(a.Seeds) > 0 {
		m.Seeds = a.Seeds
	}
	switch {
	case code != nil:
		m.Network, d.Secret = code.Network, code.Secret
		m.Tailnet.ControlURL = cmp.Or(a.ControlURL, code.ControlURL)
		for _, address := range code.Addresses {
			if !slices.Contains(m.Seeds, address) {
				m.Seeds = append(slices.Clone(m.Seeds), address)
			}
		}
	case a.Start == startSecured && s.Secret != nil: // another would part it from those who have this one
		d.Secret = s.Secret
	case a.Start == startSecured:
		d.Secret, d.Began = s.Fresh, true
	default:
		d.Began = s.Config == nil
	}
	m.Open = d.Secret == nil
	if d.Config.API.Local == "" && m.Network == "tailnet" {
		d.Config.API.Local = fmt.Sprintf("127.0.0.1:%d", d.Config.API.Port)
	}
}

// notes says what the owner should know, and what is left to do.
func (d *Setup) notes(a Answers, s Sight) {
	for _, note := range d.Plan.Notes {
		if !slices.ContainsFunc(d.picks, func(p pick) bool { return strings.HasPrefix(note, p.name+": ") }) { // the plan itself says it
			d.Notes = append(d.Notes, note)
		}
	}
	for _, w := range d.Plan.Warnings {
		d.Notes = append(d.Notes, "warning: "+w.Text)
	}
	for _, f := range s.Faults {
		d.Notes = append(d.Notes, "warning: "+f.Text+": "+f.Fix)
	}
	var seen []string
	for _, m := range d.Config.Models {
		if image := m.Llamacpp.Image; m.Llamacpp.Runner == "docker" && !slices.Contains(seen, image) {
			seen = append(seen, image)
			d.aboutImage(image, a, s)
		}
	}
	if d.Config.Mesh.Open {
		d.Notes = append(d.Notes, "the mesh is open: whoever reaches this node's ports may join it and use its models")
	}
}

// aboutImage says whether engines can be started from it.
func (d *Setup) aboutImage(image string, a Answers, s Sight) {
	at := slices.IndexFunc(images.Catalogue(), func(e images.Entry) bool { return e.Name == image })
	if at < 0 {
		if s.Images != nil && !s.Images[image] {
			d.Todo = append(d.Todo, fmt.Sprintf("fetch the image: 'viiwork images pull %s'", image))
		}
		return
	}
	e := images.Catalogue()[at]
	if len(e.Verified) == 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("this project has run the image %s on none of its cards yet: see docs/images.md", image))
	}
	local := strings.HasPrefix(e.Reference, images.Local)
	switch {
	case image == "rocm" && a.Engine.Image == "":
		d.Todo = append(d.Todo, "no image is known to run on these AMD cards: try 'viiwork images pull rocm' and 'viiwork doctor', or name another with llamacpp.image; then start the node")
	case s.Images[image]:
	case local:
		d.Todo = append(d.Todo, fmt.Sprintf("make the image on this machine: 'viiwork images build %s'", image))
	default:
		d.Todo = append(d.Todo, fmt.Sprintf("fetch the image: 'viiwork images pull %s'", image))
	}
}
