package mesh

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// JoinCode is what a new machine needs to come into a mesh. It prints as a placeholder, since it holds the secret.
type JoinCode struct {
	Network    string   // tailnet or lan
	ControlURL string   // of the tailnet's control server, "" = Tailscale's own
	Addresses  []string // host or host:port of members, where the network alone does not lead to them
	Secret     []byte   // 32 bytes; nil = an open mesh
}

// Errors a caller may tell apart.
var (
	ErrMistyped  = errors.New("the join code is mistyped or cut short: copy it again, whole, from 'viiwork join-code'")
	ErrNewerCode = errors.New("the join code was made by a newer viiwork: update this machine first")
	errNoCode    = errors.New("this is no join code, which begins with VIIWORK-: copy it from 'viiwork join-code' on a member")
)

const (
	codePrefix   = "VIIWORK"
	codeVersion  = 1
	codeGroup    = 5
	checkBytes   = 4
	maxCodeText  = 4 << 10
	maxAddresses = 8
	maxAddress   = 260

	flagLAN    = 1
	flagSecret = 2
)

// code32 is Crockford's alphabet: no I, L, O or U, so that what is read aloud or off a screen is read right.
var code32 = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

func (JoinCode) String() string   { return "(join code)" }
func (JoinCode) GoString() string { return "(join code)" }

// Encode gives the text of the code: groups of letters and digits, which may be typed in either case.
func (c JoinCode) Encode() (string, error) {
	if err := c.check(); err != nil {
		return "", fmt.Errorf("making a join code: %w", err)
	}
	flags := byte(0)
	if c.Network == "lan" {
		flags |= flagLAN
	}
	if c.Secret != nil {
		flags |= flagSecret
	}
	b := []byte{codeVersion, flags}
	b = append(b, c.Secret...)
	b = appendText(b, c.ControlURL)
	b = binary.AppendUvarint(b, uint64(len(c.Addresses)))
	for _, a := range c.Addresses {
		b = appendText(b, a)
	}
	var text strings.Builder
	text.WriteString(codePrefix)
	for group := range slices.Chunk([]byte(code32.EncodeToString(append(b, checksum(b)...))), codeGroup) {
		text.WriteByte('-')
		text.Write(group)
	}
	return text.String(), nil
}

func checksum(b []byte) []byte {
	sum := sha256.Sum256(append([]byte("viiwork join code\n"), b...))
	return sum[:checkBytes]
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// ParseJoinCode reads what Encode wrote, in either case, with any white space and dashes, and with O for 0 and I or L
// for 1. ErrMistyped and ErrNewerCode are told apart from text that is no join code at all.
func ParseJoinCode(text string) (JoinCode, error) {
	raw, err := decodeCode(text)
	if err != nil {
		return JoinCode{}, err
	}
	b := raw[:len(raw)-checkBytes]
	// The checksum comes first, and stays as it is in every version: a mistyped version is a mistyped code.
	if !bytes.Equal(checksum(b), raw[len(b):]) {
		return JoinCode{}, ErrMistyped
	}
	if b[0] != codeVersion {
		return JoinCode{}, ErrNewerCode
	}
	c, ok := parseCode(b[1:])
	if !ok || c.check() != nil {
		return JoinCode{}, errors.New("reading the join code: what is in it makes no sense: make a new one with 'viiwork join-code'")
	}
	return c, nil
}

// decodeCode gives the bytes of the code, at least a version and a checksum.
func decodeCode(text string) ([]byte, error) {
	if len(text) > maxCodeText {
		return nil, errNoCode
	}
	text = strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n-", r) {
			return -1
		}
		return r
	}, strings.ToUpper(text))
	text, ok := strings.CutPrefix(text, codePrefix)
	if !ok {
		return nil, errNoCode
	}
	text = strings.NewReplacer("O", "0", "I", "1", "L", "1").Replace(text)
	raw, err := code32.DecodeString(text)
	if err != nil || len(raw) <= checkBytes || code32.EncodeToString(raw) != text {
		return nil, ErrMistyped
	}
	return raw, nil
}

// parseCode reads what follows the version.
func parseCode(b []byte) (c JoinCode, ok bool) {
	if len(b) == 0 || b[0]&^(flagLAN|flagSecret) != 0 {
		return c, false
	}
	c.Network = "tailnet"
	if b[0]&flagLAN != 0 {
		c.Network = "lan"
	}
	secret := b[0]&flagSecret != 0
	if b = b[1:]; secret {
		if len(b) < secretBytes {
			return c, false
		}
		c.Secret, b = slices.Clone(b[:secretBytes]), b[secretBytes:]
	}
	if c.ControlURL, b, ok = cutText(b); !ok {
		return c, false
	}
	n, size := binary.Uvarint(b)
	if size <= 0 || n > maxAddresses {
		return c, false
	}
	b = b[size:]
	for range n {
		var a string
		if a, b, ok = cutText(b); !ok {
			return c, false
		}
		c.Addresses = append(c.Addresses, a)
	}
	return c, len(b) == 0
}

func cutText(b []byte) (s string, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, false
	}
	return string(b[size : size+int(n)]), b[size+int(n):], true
}

// check is for what is written into a code and for what comes out of one.
func (c JoinCode) check() error {
	switch {
	case c.Network != "tailnet" && c.Network != "lan":
		return fmt.Errorf("there is no network %q: use tailnet or lan", c.Network)
	case c.Secret != nil && len(c.Secret) != secretBytes:
		return fmt.Errorf("the secret has %d bytes, not %d: make one with 'openssl rand -base64 32'", len(c.Secret), secretBytes)
	case len(c.Addresses) > maxAddresses:
		return fmt.Errorf("more than %d addresses: name a few members", maxAddresses)
	}
	if c.ControlURL != "" && !isWebAddress(c.ControlURL) {
		return errors.New("the control server's address is none: write http://host or https://host")
	}
	for _, a := range c.Addresses {
		if !isAddress(a) {
			return errors.New("an address is none: write host, host:port or [IPv6]:port")
		}
	}
	return nil
}

func isWebAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && isText(s) && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// isAddress accepts a host with or without a port. Whoever reads the code dials it, so it may hold nothing else.
func isAddress(s string) bool {
	if len(s) > maxAddress {
		return false
	}
	host := s
	if h, p, err := net.SplitHostPort(s); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return false
		}
		host = h
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, ok = strings.CutSuffix(inner, "]")
		return ok && net.ParseIP(host) != nil
	}
	if net.ParseIP(host) != nil {
		return true
	}
	for _, r := range host {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_' {
			return false
		}
	}
	return host != ""
}
