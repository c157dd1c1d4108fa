package update_test

import (
	"archive/tar"
	"os"
	"path/filepath"
	"testing"
	"time"

	"viiwork/update"
	"viiwork/update/updatetest"
)

// FuzzBundle: whatever a bundle holds, a download is accepted only by the one that was signed for it.
func FuzzBundle(f *testing.F) {
	sig := updatetest.New(f)
	p, err := update.ParsePublisher(publisher)
	if err != nil {
		f.Fatal(err)
	}
	trust, err := update.LoadTrust(update.TrustConfig{Root: sig.Root()})
	if err != nil {
		f.Fatal(err)
	}
	v := update.NewVerifier(p, trust)
	good := sig.Sign(signing(sum(content)))
	f.Add([]byte("{}"))
	f.Add(sig.Sign(signing(sum("other"))))
	f.Add(sig.Sign(updatetest.Signing{Identity: updatetest.Run("attacker/viiwork", version, commit), Plain: []byte(content), At: time.Now()}))
	f.Add(good[:len(good)/2])
	dir := f.TempDir()
	file, proof := filepath.Join(dir, "viiwork"), filepath.Join(dir, "proof.json")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, bundle []byte) {
		write(t, proof, bundle)
		if r, err := v.File(file, proof, version); (err == nil) != r.OK || r.OK {
			t.Fatalf("accepted: %+v, %v", r, err)
		}
	})
}

// FuzzFolder: whatever a stick holds, opening it and looking around ends without a panic.
func FuzzFolder(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","size":2,"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","annotations":{"org.opencontainers.image.ref.name":"v1.2.3"}}]}`), []byte("{}"))
	f.Add([]byte(`{"manifests":[{"digest":"sha256:../../x"}]}`), []byte(`{"manifests":[{"platform":{}}]}`))
	f.Fuzz(func(t *testing.T, list, index []byte) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "index.json"), list)
		blobs := filepath.Join(dir, "blobs", "sha256")
		if err := os.MkdirAll(blobs, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(blobs, sum(string(index))), index)
		source, err := update.OpenSource(dir, nil)
		if err != nil {
			return
		}
		for _, what := range []string{version, "sha256:" + sum(string(index))} {
			found, err := update.Look(t.Context(), source, what)
			if err != nil {
				continue
			}
			for _, platform := range append(found.Platforms(), amd64) {
				_, _ = found.Levels(t.Context(), platform)
			}
		}
	})
}

// FuzzLayer: what comes out of a layer is the file of that name, or nothing.
func FuzzLayer(f *testing.F) {
	f.Add(inLayer, byte(tar.TypeReg), "x")
	f.Add("./"+inLayer, byte(tar.TypeLink), inLayer)
	f.Add("a/viiwork", byte(tar.TypeSymlink), "../viiwork")
	f.Fuzz(func(t *testing.T, name string, kind byte, text string) {
		if name == "" || len(name) > 90 || kind != tar.TypeReg && kind != tar.TypeLink && kind != tar.TypeSymlink && kind != tar.TypeDir {
			return
		}
		layer, ok := tryTarball(file{name, kind, text})
		if !ok {
			return
		}
		got, err := update.Unpack(layer)
		if taken := name == inLayer && kind == tar.TypeReg; taken != (err == nil) || taken && got != text {
			t.Fatalf("%q of type %q gave %q, %v", name, kind, got, err)
		}
	})
}
