package config_test

import (
	"fmt"
	"testing"

	"viiwork/appliance/config"
)

// accepts reports whether one value at one place is taken.
func accepts(format, value string) bool {
	_, err := config.Parse("v.yaml", []byte(fmt.Sprintf(format, value)), []string{"VIIWORK_MESH_OPEN=true"})
	return err == nil
}

func TestAddressesAreJudgedByTheirForm(t *testing.T) {
	for _, tc := range []struct {
		format    string
		good, bad []string
	}{
		{"mesh: {seeds: [%q]}", []string{"box", "box.example.org", "10.0.0.5", "box:7946", "10.0.0.5:1", "fd7a::1", "[fd7a::1]", "[fd7a::1]:7946", "127.0.0.3", "node_b"},
			[]string{"", ":7946", "box:", "box:0", "box:65536", "http://box", "a b", "[fd7a::1", "[box]", "-box", "box/x"}},
		{"api: {local: %q}", []string{"127.0.0.1:8086", "127.1.2.3:1", "localhost:80", "[::1]:8086", ""},
			[]string{"8086", ":8086", "192.168.0.1:8086", "[::]:8086", "localhost", "127.0.0.1:http"}},
		{"api: {host: %q}", []string{"", "127.0.0.2", "::1", "fe80::1%eth0"}, []string{"localhost", "127.0.0.1:80"}},
		{"api: {cors: {allow_origins: [%q]}}", []string{"*", "https://a.b", "http://localhost:3000", "app://x"},
			[]string{"a.b", "https://", "https://a/", "https://u@a", "https://a?x", "https://a:"}},
		{"models: [{name: m, llamacpp: {runner: external, url: %q}}]", []string{"http://127.0.0.1:9000", "https://box", "http://[::1]:1/"},
			[]string{"", "127.0.0.1:9000", "http://", "http://u:p@h:1", "http://h:1/v1", "http://h:1?x=1", "http://h:1#x", "http://h:99999", "unix:///x"}},
		{"mesh: {tailnet: {control_url: %q}}", []string{"", "https://hs.example.org", "http://127.0.0.1:1"}, []string{"hs.example.org", "ftp://a"}},
		{"mesh: {tailnet: {tags: [%q]}}", []string{"tag:gpu-box"}, []string{"gpu", "tag:", "tag:a b"}},
		{"kv_share: {store: %q}", []string{"0", "1", "8GiB", "8gib", "1.5 GiB", "8GB", "500kB", "100B"}, []string{"", "GiB", "8G", "0x10", "1e3", "1_000", "8 XB", "+1", "NaN", "Inf"}},
		{"update: {window: %q}", []string{"", "02:00-05:00", "23:00-01:00"}, []string{"02:00", "02:00-25:00", "02:00-02:00"}},
	} {
		for _, v := range tc.good {
			if !accepts(tc.format, v) {
				t.Errorf(tc.format+" is refused", v)
			}
		}
		for _, v := range tc.bad {
			if accepts(tc.format, v) {
				t.Errorf(tc.format+" is accepted", v)
			}
		}
	}
}
