package headscaletest

import (
	"fmt"
	"testing"
)

// configFile is a Headscale's configuration in which every address is loopback, and every list of foreign servers empty.
// Its relay speaks no TLS, as that of an owner who tries Headscale without a certificate does.
func configFile(t testing.TB, dir, listen string) string {
	return fmt.Sprintf(`
server_url: http://%[2]s
listen_addr: %[2]s
metrics_listen_addr: 127.0.0.1:%[3]d
grpc_listen_addr: 127.0.0.1:%[4]d
noise: {private_key_path: %[1]s/noise.key}
prefixes: {v4: 100.64.0.0/10, v6: "fd7a:115c:a1e0::/48", allocation: sequential}
derp:
  server:
    enabled: true
    region_id: 999
    region_code: own
    region_name: own
    verify_clients: true
    stun_listen_addr: 127.0.0.1:%[5]d
    private_key_path: %[1]s/derp.key
    automatically_add_embedded_derp_region: true
    ipv4: 127.0.0.1
  urls: []
  paths: []
  auto_update_enabled: false
disable_check_updates: true
database: {type: sqlite, sqlite: {path: %[1]s/db.sqlite, write_ahead_log: true}}
log: {level: info, format: text}
policy: {mode: file, path: ""}
dns:
  magic_dns: true
  base_domain: mesh.test
  override_local_dns: false
  nameservers: {global: []}
unix_socket: %[1]s/socket
unix_socket_permission: "0700"
logtail: {enabled: false}
`, dir, listen, freePort(t), freePort(t), freePort(t))
}
