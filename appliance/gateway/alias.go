package gateway

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"viiwork/appliance/status"
)

const headAlias = "X-Viiwork-Alias"

// resolve finds the model that the body's name stands for. Of what a member passes on its headers tell, as they are
// signed and the body is still the client's: so both nodes mean one model, whatever their aliases are at that moment.
func (k *call) resolve() {
	named := k.model
	if k.hop != nil {
		if told := k.hop.model; told != "" && len(told) <= maxModelName {
			k.model = told
		}
	} else if target, ok := k.g.aliasOf(named); ok {
		k.model = target
		k.c.Response().Header().Set(headAlias, named)
	}
	if k.model != named {
		k.alias = named
		k.facts.rename = quoted(k.model)
	}
}

// aliasOf tells which model a name leads to. A model beats an alias.
func (g *Gateway) aliasOf(name string) (target string, ok bool) {
	if g.cfg.Aliases == nil {
		return "", false
	}
	target, ok = g.cfg.Aliases()[name]
	return target, ok && !g.Serves(name)
}

// Serves tells whether any node has the model, ready or not.
func (g *Gateway) Serves(model string) bool {
	_, here := g.local(model)
	return here || g.elsewhere(model)
}

// quoted is name as a JSON text.
func quoted(name string) string {
	b, err := json.Marshal(name)
	if err != nil { // cannot be: it is a string
		return `""`
	}
	return string(b)
}

// throughAlias says in an error both names: the client knows the alias, and the owner looks for the model.
func (k *call) throughAlias(err error) error {
	if err == nil || k.alias == "" || k.hop != nil {
		return err
	}
	e := asError(err)
	if e.Code != "model_not_found" && e.Code != "model_not_ready" && e.Code != "host_not_ready" {
		return err
	}
	both := *e
	both.Message = "\"" + shown(k.alias) + "\" is an alias of \"" + shown(k.model) + "\": " + e.Message
	return &both
}

// listed is the fleet and, as models of their own, the aliases that lead into it or will.
func (g *Gateway) listed() []fleetModel {
	all := g.fleet()
	if g.cfg.Aliases == nil {
		return all
	}
	targets := g.cfg.Aliases()
	hosts := make(map[string][]fleetHost, len(all))
	for _, m := range all {
		hosts[m.name] = m.hosts
	}
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		if _, shadowed := hosts[name]; !shadowed {
			all = append(all, fleetModel{name: name, hosts: hosts[targets[name]], aliasOf: targets[name]})
		}
	}
	return all
}

// find is the model or alias of that name.
func (g *Gateway) find(name string) (fleetModel, bool) {
	for _, m := range g.listed() {
		if m.name == name {
			return m, true
		}
	}
	return fleetModel{}, false
}

// UnknownModel is the error for a name that is neither a model nor an alias. It names the one that was probably meant.
func (g *Gateway) UnknownModel(name string) error { return g.unknownModel(name) }

// UnknownAlias is the error for an alias that does not exist. It names the one that was probably meant.
func (g *Gateway) UnknownAlias(name string) error {
	e := &Error{Status: http.StatusNotFound, Code: "alias_not_found", Param: "name", Message: "there is no alias \"" + shown(name) + "\""}
	near := ""
	if g.cfg.Aliases != nil && len(name) <= maxModelName {
		near = nearest(name, slices.Sorted(maps.Keys(g.cfg.Aliases())))
	}
	if near != "" {
		e.Message += "; did you mean \"" + near + "\"?"
	} else {
		e.Message += "; 'viiwork alias ls' lists those there are"
	}
	return e
}

// aliasWarnings names the aliases that nobody reaches since there is a model of that name.
func (g *Gateway) aliasWarnings(fleet []fleetModel) []status.Warning {
	var warnings []status.Warning
	if g.cfg.Aliases == nil {
		return nil
	}
	targets := g.cfg.Aliases()
	for _, m := range fleet {
		if target, shadowed := targets[m.name]; shadowed {
			warnings = append(warnings, status.Warning{
				ID: "alias_shadowed", Text: "the alias " + m.name + " of " + target + " is not in use: there is a model of that name now, and a model comes first",
				Fix: "remove the alias with 'viiwork alias rm " + m.name + "', or give the model another name",
			})
		}
	}
	return warnings
}
