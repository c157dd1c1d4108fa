package config_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/config"
)

func TestEnvironmentWinsOverTheFile(t *testing.T) {
	c := parse(t, `
routing: {queue_timeout: 5s, queue_max: 3}
models: [{name: a, path: /a, gpus: [0, 1, 2, 3], gpus_per_backend: 2}]`,
		"VIIWORK_ROUTING_QUEUE_TIMEOUT=20s", "VIIWORK_API_HOSTS=a.example, b.example,", "VIIWORK_API_LOCAL=",
		"VIIWORK_API_MAX_INFLIGHT=1GiB", "VIIWORK_UPDATE_AUTO=yes", "VIIWORK_MODELS_0_GPUS=4,5", "VIIWORK_MODELS_0_LLAMACPP_SPLIT_WEIGHTS=1,2.5",
		"VIIWORK_MODELS_0_NAME=first", "VIIWORK_MODELS_0_NAME=org/last", "VIIWORK_KV_SHARE_DIRECT=")
	if c.Routing.QueueTimeout != 20*time.Second || c.Routing.QueueMax != 3 {
		t.Errorf("routing is %+v", c.Routing)
	}
	if !slices.Equal(c.API.Hosts, []string{"a.example", "b.example"}) || c.API.Local != "" || c.API.MaxInflight != 1<<30 || !c.Update.Auto {
		t.Errorf("api is %+v", c.API)
	}
	m := c.Models[0]
	if m.Name != "org/last" || !slices.Equal(m.GPUs, []int{4, 5}) || !slices.Equal(m.Llamacpp.SplitWeights, []float64{1, 2.5}) {
		t.Errorf("model is %+v", m)
	}
	if len(c.Warnings()) > 0 {
		t.Errorf("warnings: %v", c.Warnings())
	}
}

// Every key but the blocks of names and the rules can be set from the environment, each by a variable of its own.
func TestEveryKeyHasAVariable(t *testing.T) {
	values := map[string]string{
		"models[].gpus": "0,1", "models[].gpus_per_backend": "1", "models[].llamacpp.split_weights": "1", "models[].context": "512",
		"models[].engine": "llamacpp", "models[].llamacpp.runner": "native", "models[].llamacpp.split_mode": "row", "models[].llamacpp.url": "",
		"mesh.open": "true", "mesh.network": "lan", "mesh.secret_enforce": "none", "mesh.tailnet.control_url": "http://a", "mesh.tailnet.tags": "tag:a",
		"api.host": "127.0.0.1", "api.local": "127.0.0.1:1", "api.cors.allow_origins": "*", "routing.policy": "classic", "kv_share.mode": "off",
		"kv_share.direct": "auto", "kv_share.rate": "50MiB", "update.window": "01:00-02:00", "telemetry.otlp": "http://c:4318", "log.level": "debug", "log.format": "json", "api.port": "1", "api.max_inflight": "1GiB", "api.max_body": "1MiB",
	}
	for _, key := range config.Keys() {
		if key == "aliases" || key == "access.rules" || key == "models[].env" {
			continue
		}
		value, given := values[key]
		for _, guess := range []string{"x", "7", "7s", "true"} {
			if given {
				break
			}
			value = guess
			if setting(t, key, value) != nil {
				break
			}
		}
		s := setting(t, key, value)
		if s == nil {
			t.Errorf("%s cannot be set", key)
		} else if !strings.HasPrefix(s.Origin, "env VIIWORK_") {
			t.Errorf("%s = %q came from %s", key, value, s.Origin)
		}
	}
}

// setting sets key by its variable and returns how it is shown then, nil when refused.
func setting(t *testing.T, key, value string) *config.Setting {
	t.Helper()
	key = strings.ReplaceAll(key, "[]", "[0]")
	name := "VIIWORK_" + strings.ToUpper(strings.NewReplacer(".", "_", "[", "_", "]", "").Replace(key))
	text := "models: [{name: a, path: /a}]\n"
	environ := []string{name + "=" + value}
	if key != "mesh.open" {
		environ = append(environ, "VIIWORK_MESH_OPEN=true")
	}
	c, err := config.Parse("v.yaml", []byte(text), environ)
	if err != nil {
		return nil
	}
	for _, s := range c.Show() {
		if s.Key == key {
			return &s
		}
	}
	t.Fatalf("Show lacks %s", key)
	return nil
}

func TestVariablesThatSetNothingAreNamed(t *testing.T) {
	c := parse(t, "", "VIIWORK_ROUTING_QUEUE_TIMOUT=3s", "VIIWORK_CONFIG=x", "VIIWORK_TEST_ENGINE=x", "VIIWORK_MESH_SECRET_PREV=",
		"VIIWORK_MODELS_0_NAME=x", "VIIWORK_WHATEVER_THIS_IS=1", "OTHER=1", "VIIWORK_MESH_SECRET=", "noise")
	want := []string{
		"the variable VIIWORK_MODELS_0_NAME sets nothing: the file has no models for it",
		"the variable VIIWORK_ROUTING_QUEUE_TIMOUT sets nothing: did you mean VIIWORK_ROUTING_QUEUE_TIMEOUT?",
		"the variable VIIWORK_WHATEVER_THIS_IS sets nothing: no key has that name",
	}
	if got := c.Warnings(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestSecretVariablesAreKnown(t *testing.T) {
	c := parse(t, "")
	want := []string{"VIIWORK_MESH_SECRET", "VIIWORK_MESH_SECRET_FILE", "VIIWORK_MESH_SECRET_PREV", "VIIWORK_MESH_SECRET_PREV_FILE"}
	if got := c.SecretVariables(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
