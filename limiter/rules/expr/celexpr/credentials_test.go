package celexpr_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/credentials"
)

// TestCredentials_KnowsExpressionsThatReadThem has expressions over all ways to a value. Only what is certainly public is not hashed.
func TestCredentials_KnowsExpressionsThatReadThem(t *testing.T) {
	http, write := &rules.Match{}, &rules.Match{Kubernetes: &rules.KubernetesMatch{}}
	entries := &rules.Match{Descriptors: []rules.DescriptorMatch{{Key: "tenant"}, {Key: "api_key"}, {Key: "rule-0-match-1"}}}
	for _, c := range []struct {
		match          *rules.Match
		secret, public []string
	}{
		{http, []string{
			`request.headers["x-api-key"]`, `request.headers["X-API-Key"]`, `request.headers.authorization`, `.request.headers["x-api-key"]`,
			`request.headers[?"x-api-key"].orValue(request.clientIP)`, `request.headers.?authorization.orValue("")`, `request.?headers.orValue({})["x-a"]`,
			`request["headers"]["cookie"]`, `"a" + "/" + (request.path == "/" ? "" : request.headers["cookie"])`,
			`request.headers["x-" + "api-key"]`, `request.headers[request.query["h"][0]]`, `request.headers[request.path]`,
			`[request.headers].map(h, h["x-api-key"])[0]`, `[request].map(r, r.headers["x-api-key"])[0]`, `[request][0].headers.cookie`,
			`request.headers.map(h, request.headers[h]).join(",")`, `request.headers.map(k, k).join(",")`,
			`request.headers.exists(h, request.headers[h] == "s3cret") ? "a" : "b"`,
			`["x-api-key"].map(name, request.headers[name])[0]`, `["cookie"].filter(n, n in request.headers).map(n, request.headers[n]).join("")`,
			`{"a": request.headers["x-api-key"]}["a"]`, `{request.headers["x-api-key"]: "a"}.map(k, k)[0]`, `optional.of(request.headers).value()["cookie"]`,
			`request.query["api_key"][0]`, `request.query[?"access_token"].orValue([""])[0]`, `request.query.map(q, request.query[q][0])[0]`,
			`string(request.claims.token)`, `string(request.claims["realm"]["api_key"])`, `"%s".format([request.claims.realm])`, `string(request.claims[request.host])`,
			`request.descriptors[0][0].value`, `request.descriptors.map(d, d[0].value)[0]`, `base64.encode(bytes(request.headers["authorization"]))`,
			`request.headers["authorization"].split(" ")[1]`, `string(size(request.headers["x-license"]))`, `not an expression`,
		}, []string{
			`request.headers["x-tenant-id"]`, `request.headers["x-user-id"] + "/" + request.headers[?"x-device"].orValue("unknown")`, `"all"`,
			`request.clientIP`, `request.path == "/a" ? request.path : request.clientIP`, `request.method + request.host + request.domain`,
			`"authorization" in request.headers ? "known" : "anonymous"`, `has(request.headers.authorization) ? "known" : "anonymous"`,
			`request.query["page"][0]`, `string(request.claims.sub)`, `string(request.claims.realm.tenant)`, `request.claims["groups"].filter(g, g.startsWith("a"))[0]`,
			`["a", "b"].map(x, x + request.host)[0]`, `"%s".format([request.host])`, `request.headers["x-tenant-id"].split("-")[0]`, `string(size(request.path))`,
		}},
		{entries, []string{
			`request.descriptors[0][1].value`, `request.descriptors[0][0].value + request.descriptors[0][1].value`, `request.descriptors[0][2].value`,
			`request.descriptors[1][0].value`, `request.descriptors[0][3].value`, `request.descriptors[0].map(e, e.value)[0]`, `request.descriptors[0][int("1")].value`,
			`request.descriptors.filter(d, d[0].key == "tenant")[0][0].value`,
		}, []string{
			`request.descriptors[0][0].value`, `request.descriptors[0][0].value + "#" + string(size(request.descriptors[0][0].value))`,
		}},
		{write, []string{
			`request.object.data["a"]`, `string(request.object.stringData.a)`, `request.object.spec.token`, `request.oldObject.spec.connection.password`,
			`request.object.metadata.labels[request.namespace]`, `json.encode(request.object.spec)`, `"%s".format([request.object.spec])`,
			`request.userInfo.extra["x-token"][0]`, `request.object.spec.users.map(u, u.password)[0]`, `[request.object].map(o, o.spec)[0]`,
		}, []string{
			`request.userInfo.username`, `request.namespace + "/" + request.name`, `request.object.spec.template.spec.containers.map(c, c.image)[0]`,
			`request.object.metadata.labels["team"]`, `request.resource.group + request.kind.kind + request.subResource`,
		}},
	} {
		names := credentials.New("X-License")
		for want, texts := range map[bool][]string{true: c.secret, false: c.public} {
			for _, text := range texts {
				if got := names.In(rules.Identifier{From: rules.FromExpression, Name: text}, c.match); got != want {
					t.Errorf("%s: %t, want %t", text, got, want)
				}
			}
		}
	}
}
