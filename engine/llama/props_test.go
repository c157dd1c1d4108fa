package llama_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/llama"
)

func TestPropsOfServersOfAllMakes(t *testing.T) {
	type answers = map[string]func(http.ResponseWriter)
	cases := map[string]struct {
		answers answers
		want    engine.Props
	}{
		"llama-server": {
			answers{"/props": say(200, `{"default_generation_settings":{"n_ctx":8192,"params":{}},"total_slots":2,"build_info":"b11669-Debian"}`)},
			engine.Props{Context: 8192, Slots: 2, Build: "b11669-Debian"},
		},
		"only models": {
			answers{"/v1/models": say(200, `{"data":[{"id":"m","meta":{"n_ctx":4096,"n_ctx_train":32768}}]}`)},
			engine.Props{Context: 4096},
		},
		"another make": {
			answers{"/props": say(200, `<html>`), "/v1/models": say(200, `{"data":[{"id":"m","max_model_len":16384.0}]}`)},
			engine.Props{Context: 16384},
		},
		"nothing known":   {nil, engine.Props{}},
		"hostile numbers": {answers{"/props": say(200, `{"default_generation_settings":{"n_ctx":1e300},"total_slots":-4}`)}, engine.Props{}},
		"null meta":       {answers{"/v1/models": say(200, `{"data":[{"meta":null}]}`)}, engine.Props{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, target := serve(t, c.answers)
			got, err := llama.New(nil).Props(t.Context(), target)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestSlotsOverTheBuilds(t *testing.T) {
	const used = `"id_task":7,"n_prompt_tokens":940,"n_prompt_tokens_processed":512,"n_prompt_tokens_cache":0,"params":{"seed":1}`
	cases := map[string]struct {
		body string
		want []engine.SlotState
		err  string
	}{
		"never used": {`[{"id":0,"n_ctx":8192,"speculative":false,"is_processing":false}]`, []engine.SlotState{{Task: -1}}, ""},
		"in use": {
			`[{"id":1,"is_processing":true,` + used + `,"next_token":[{"n_decoded":31,"n_remain":-1}]}]`,
			[]engine.SlotState{{ID: 1, Processing: true, Tokens: 940, Work: 543, Task: 7}}, "",
		},
		"next_token as an object": {
			`[{"id":1,"is_processing":true,` + used + `,"next_token":{"n_decoded":31}}]`,
			[]engine.SlotState{{ID: 1, Processing: true, Tokens: 940, Work: 543, Task: 7}}, "",
		},
		"state as a number": {`[{"id":0,"state":1,"n_past":12,"next_token":{"n_decoded":2}}]`, []engine.SlotState{{Processing: true, Tokens: 12, Work: 2, Task: -1}}, ""},
		"wrapped":           {`{"slots":[{"id":3,"is_processing":true}]}`, []engine.SlotState{{ID: 3, Processing: true, Task: -1}}, ""},
		"nulls and texts":   {`[{"id":null,"n_prompt_tokens":"many","next_token":"soon","n_prompt_tokens_processed":-5}]`, []engine.SlotState{{Task: -1}}, ""},
		"no task yet":       {`[{"id":2,"id_task":-1},{"id":0,"id_task":0}]`, []engine.SlotState{{ID: 2, Task: -1}, {Task: 0}}, ""},
		"none":              {`[]`, []engine.SlotState{}, ""},
		"an object":         {`{"status":"ok"}`, nil, "reading the engine's slots"},
		"garbage":           {"\x00", nil, "reading the engine's slots"},
		"too many":          {"[" + strings.Repeat("{},", 5000) + "{}]", nil, "reports 5001 of them"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, target := serve(t, map[string]func(http.ResponseWriter){"/slots": say(200, c.body)})
			got, err := llama.New(nil).Slots(t.Context(), target)
			if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %+v, %v; want %+v, error %q", got, err, c.want, c.err)
			}
		})
	}
	_, target := serve(t, map[string]func(http.ResponseWriter){"/slots": say(501, `{"error":{"message":"off"}}`)})
	if _, err := llama.New(nil).Slots(t.Context(), target); err == nil {
		t.Error("slots switched off are no error")
	}
}

func FuzzSlotsNeverPanic(f *testing.F) {
	f.Add([]byte(`[{"id":1,"is_processing":true,"n_prompt_tokens":3,"next_token":[{"n_decoded":31}]}]`))
	f.Add([]byte(`{"slots":[{"state":1e9,"n_past":-0.5}]}`))
	var body []byte
	client := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return response(body), nil })}
	d := llama.New(client)
	f.Fuzz(func(t *testing.T, data []byte) {
		body = data
		states, err := d.Slots(t.Context(), engine.Target{URL: "http://engine"})
		if err != nil && states != nil {
			t.Error("slots beside an error")
		}
		for _, s := range states {
			if s.ID < 0 || s.Tokens < 0 || s.Work < 0 || s.Task < -1 {
				t.Errorf("negative figures: %+v", s)
			}
		}
		// The other readers of hostile answers share the same bytes.
		_, _ = d.Props(t.Context(), engine.Target{URL: "http://engine"})
		if saved, err := d.Save(t.Context(), engine.Target{URL: "http://engine"}, 0, "a"); err == nil && (saved.Tokens <= 0 || saved.Bytes < 0) {
			t.Errorf("%s is taken for a save: %+v", data, saved)
		}
		_ = d.Prove(t.Context(), engine.Target{URL: "http://engine"}, "m")
	})
}

func TestProgressCountsDotsOfTheLastLoad(t *testing.T) {
	const head = "0.00.014 I load_tensors: loading model tensors, this can take a while... (load_mode = mmap)\n"
	cases := map[string]struct {
		log  string
		want float64
	}{
		"empty":             {"", -1},
		"before the load":   {"srv llama_server: initializing ...\n", -1},
		"a quiet build":     {head + "load_tensors: CPU model buffer size = 4 MiB\nsched_reserve: reserving ...\n", -1},
		"a third":           {head + "load_tensors: CUDA0 model buffer size = 4 MiB\n" + strings.Repeat(".", 33), 0.33},
		"done":              {head + strings.Repeat(".", 100) + "\nllama_context: ...\n", 1},
		"more than all":     {head + strings.Repeat(".", 5000) + "\n", 1},
		"a load before":     {head + strings.Repeat(".", 100) + "\n" + head + "..\n", 0.02},
		"dots of elsewhere": {strings.Repeat(".", 50) + "\n" + head, -1},
	}
	for name, c := range cases {
		if got := llama.New(nil).Progress(c.log); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
