package gateway

// prefixOf reads the prefix of a prompt from a request's body, which scan has accepted. A request that has none, such as one
// for embeddings, gets an empty one.
func prefixOf(session []byte, rt endpoint, model string, body []byte, f *facts) prefix {
	if rt.kind == kindPlain {
		return prefix{}
	}
	r := promptReader{linker: newLinker(session), b: body, f: f}
	r.name(rt.path)
	r.name(model)
	switch rt.kind {
	case kindCompletions, kindInfill:
		r.link()
		r.blocks(blockBytes)
		r.members("input_extra", "input_prefix", "prompt", "input_suffix")
	case kindResponses:
		r.members("tools", "reasoning", "chat_template", "chat_template_kwargs")
		r.systemText(keyInstructions)
		r.conversation(keyInput)
	default:
		r.members("tools", "functions", "reasoning_effort", "chat_template", "chat_template_kwargs")
		r.systemText(keySystem)
		r.conversation(keyMessages)
	}
	return r.result()
}

// prefix is the request's. It is worked out once and must be asked for first by the handler, before others look at the call and
// while the body is there.
func (k *call) prefix() *prefix {
	if k.begins == nil {
		p := prefixOf(k.g.sessionSecret(), k.rt, k.model, k.body.bytes, &k.facts)
		k.begins = &p
	}
	return k.begins
}

// members puts members of the body, each with its name, in the order given: an engine reads them by name.
func (r *promptReader) members(names ...string) {
	for _, name := range names {
		if s, ok := r.f.part(keyNamed([]byte(name))); ok && r.b[s.from] != 'n' {
			r.mark(markKey)
			r.name(name)
			r.value(s.from)
		}
	}
}

// systemText puts system text that stands beside the messages.
func (r *promptReader) systemText(k key) {
	if s, ok := r.f.part(k); ok && r.b[s.from] != 'n' {
		r.system = true
		r.content(s.from)
		r.system = false
	}
}

// conversation puts the messages: those of the system that come first belong to the head, after it each is a step. A plain
// text is one message of the user.
func (r *promptReader) conversation(k key) {
	s, ok := r.f.part(k)
	if !ok || r.b[s.from] != '[' {
		r.link()
		if ok {
			r.userText(s.from)
			r.link()
		}
		return
	}
	head := true
	for i, more := r.first(s.from); more; i, more = r.next(i) {
		if head && !r.fromSystem(i) {
			r.link()
			head = false
		}
		if r.p.steps == maxSteps { // no link will tell it; its length still counts
			r.p.whole.text += s.to - i
			return
		}
		r.system = head
		i = r.message(i)
		r.system = false
		if !head {
			r.link()
		}
	}
	if head {
		r.link()
	}
}

// fromSystem looks ahead for the role of the message at i.
func (r *promptReader) fromSystem(i int) (system bool) {
	if r.b[i] != '{' {
		return false
	}
	message := r.b[i:r.skip(i)]
	_ = eachMember(message, func(k, v span) {
		if string(k.in(message)) == `"role"` {
			role := string(v.in(message))
			system = role == `"system"` || role == `"developer"`
		}
	})
	return system
}

func (r *promptReader) userText(i int) {
	r.mark(markKey)
	r.name("role")
	r.name("user")
	r.mark(markKey)
	r.name("content")
	r.content(i)
}
