package compile_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
)

// The budget applies to compiled rules. Before that, a tenant must not exhaust the memory of the operator: here with 500 policies for each of
// the 16 listeners of a Gateway with 500 routes, which are 4 million pairs.
func TestCompileWithin_SharesTheRoutesOfAListener(t *testing.T) {
	own := gateway.Gateway{Namespace: "shop", Name: "own"}
	var refs []string
	for i := range 16 {
		own.Listeners = append(own.Listeners, gateway.Listener{Name: fmt.Sprintf("l%d", i)})
		refs = append(refs, fmt.Sprintf("Gateway/own#l%d", i))
	}
	g := &gateway.Objects{Gateways: []gateway.Gateway{own}}
	for i := range 500 {
		g.Routes = append(g.Routes, gateway.Route{
			Kind: "HTTPRoute", Namespace: "shop", Name: fmt.Sprintf("route-%d", i), Parents: []gateway.Parent{{Namespace: "shop", Gateway: "own"}},
		})
	}
	p := compile.Policies{Gateways: g}
	for i := range 500 {
		a := attached(fmt.Sprintf("shop/p%d", i), refs...)
		a.Spec.Window = policyapi.Duration(fmt.Sprintf("%ds", i+1))
		p.Namespaced = append(p.Namespaced, a)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	result := p.CompileWithin(testIdentity(), budget.Default())
	runtime.GC()
	runtime.ReadMemStats(&after)
	const mebibyte = 1 << 20
	if held := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / mebibyte; held > 8 {
		t.Errorf("the result holds %d MiB, want at most 8", held)
	}
	if allocated := (after.TotalAlloc - before.TotalAlloc) / mebibyte; allocated > 100 {
		t.Errorf("allocated %d MiB, want at most 100", allocated)
	}
	if n := len(result.Set.Rules); n == 0 || n == 500 {
		t.Errorf("%d rules fit the budget, want some", n)
	}
	runtime.KeepAlive(p)
}
