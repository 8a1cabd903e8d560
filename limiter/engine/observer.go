package engine

// Observer receives some of the decisions that charge a request. Its methods must not block.
type Observer interface {
	// Select returns 0 for a decision that the Observer does not receive. A denial is one of any policy, also in Shadow mode. It is called for
	// each decision.
	Select(domain string, denial bool) Selection
	// Decided receives a decision with what Select returned. The argument charged reports whether the request was charged. The Observer must
	// neither change its arguments nor keep them: they can refer to memory that is reused.
	Decided(selection Selection, c *Check, a *Answer, charged bool)
}

// Selection is for what an [Observer] receives a decision. Its bits belong to the Observer.
type Selection uint8

// ObserveDecisions makes the Engine call o. Requests that no rule limits have no decision, unless a bypass lets them pass.
func ObserveDecisions(o Observer) Option {
	return func(e *Engine) { e.observer = o }
}

// observe calls the Observer. Copies of c and a are made only for selected decisions: otherwise both would be allocated for each.
func (e *Engine) observe(c *Check, a *Answer, charged bool) {
	if e.observer == nil {
		return
	}
	denial := false
	for i := range a.Results {
		denial = denial || !a.Results[i].Allowed
	}
	if selection := e.observer.Select(c.Request.Domain, denial); selection != 0 {
		check, answer := *c, *a
		check.Request.ReadHeaders()
		e.observer.Decided(selection, &check, &answer, charged)
	}
}
