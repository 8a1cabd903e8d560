package crd

import "strings"

func redisAuthCases() []schemaCase {
	const at = "spec.redis.auth"
	auth := func(text string) string { return redis(`{tls: {}, auth: ` + text + `}`) }
	aws := func(changes ...string) string {
		fields := map[string]string{"service": "ElastiCache", "name": "counters", "region": "eu-west-1", "user": "weir"}
		for _, change := range changes {
			name, value, _ := strings.Cut(change, "=")
			if fields[name] = value; value == "" {
				delete(fields, name)
			}
		}
		var all []string
		for name, value := range fields {
			all = append(all, name+`: "`+value+`"`)
		}
		return auth(`{aws: {` + strings.Join(all, ", ") + `}}`)
	}
	google := func(account string) string { return auth(`{google: {serviceAccount: "` + account + `"}}`) }
	azure := func(id string) string { return auth(`{azure: {clientID: "` + id + `"}}`) }
	const id = "0b1f6471-1bf0-4dda-aec3-cb9272f09590"
	const user = "a user must be one or more letters, digits, hyphens, underscores and dots"
	arn := func(name string) string { return "roleARN=arn:aws:iam::123456789012:role/" + name }
	all := []schemaCase{
		{
			at: at, kind: kindRule, accepted: auth(`{google: {}}`), rejected: auth(`{}`),
			message: "exactly one of the fields in [aws google azure] must be set",
		},
		{
			at: at, kind: kindRule, accepted: auth(`{azure: {}}`), rejected: auth(`{google: {}, azure: {}}`),
			message: "exactly one of the fields in [aws google azure] must be set",
		},
		{
			at: "spec.redis", kind: kindRule, field: "spec.redis.tls", accepted: auth(`{google: {}}`), rejected: redis(`{auth: {google: {}}}`),
			message: "tls is required with auth, because a token can be used by everyone who reads it; add tls: {}",
		},
		{
			at: at + ".aws.service", kind: "enum", accepted: aws("service=ElastiCacheServerless"), rejected: aws("service=Redshift"),
			message: `Unsupported value: "Redshift": supported values: "ElastiCache", "ElastiCacheServerless", "MemoryDB"`,
		},
		{
			at: at + ".aws.service", kind: "enum", accepted: aws("service=MemoryDB"), rejected: aws("service=elasticache"),
			message: `Unsupported value: "elasticache": supported values: "ElastiCache", "ElastiCacheServerless", "MemoryDB"`,
		},
		{
			at: at + ".aws.name", kind: kindRule, accepted: aws("name=Counters-1"), rejected: aws("name=counters.x1.cache.amazonaws.com"),
			message: "name must be the name of the cache without a domain: letters, digits and hyphens, and it must begin with a letter",
		},
		{
			at: at + ".aws.name", kind: "maxLength", accepted: aws("name=" + letters(64)), rejected: aws("name=" + letters(65)),
			message: "may not be more than 64 bytes",
		},
		{
			at: at + ".aws.region", kind: kindRule, accepted: aws("region=us-gov-west-1"), rejected: aws("region=eu-west-1a"),
			message: "region must be an AWS region, such as eu-west-1",
		},
		{
			at: at + ".aws.region", kind: "maxLength", accepted: aws("region=us-" + letters(27) + "-1"), rejected: aws("region=us-" + letters(28) + "-1"),
			message: "may not be more than 32 bytes",
		},
		{
			at: at + ".aws.roleARN", kind: kindRule, accepted: aws(arn("path/weir@1")), rejected: aws("roleARN=arn:aws:iam::123456789012:user/weir"),
			message: "roleARN must be the ARN of an IAM role, such as arn:aws:iam::123456789012:role/weir-limiter",
		},
		{
			at: at + ".aws.roleARN", kind: "maxLength", accepted: aws(arn(letters(2017))), rejected: aws(arn(letters(2018))),
			message: "may not be more than 2048 bytes",
		},
		{
			at: at + ".google.serviceAccount", kind: kindRule, accepted: google("weir-1@project-1.iam.gserviceaccount.com"), rejected: google("weir"),
			message: "serviceAccount must be the e-mail address of an IAM service account, such as weir@project.iam.gserviceaccount.com",
		},
		{
			at: at + ".google.serviceAccount", kind: "maxLength", accepted: google("a@" + letters(318)), rejected: google("a@" + letters(319)),
			message: "may not be more than 320 bytes",
		},
		{
			at: at + ".azure.clientID", kind: kindRule, accepted: azure(id), rejected: azure("weir"),
			message: "clientID must be a UUID, such as " + id,
		},
		{at: at + ".azure.clientID", kind: "maxLength", accepted: azure(strings.ToUpper(id)), rejected: azure(id + "0"), message: "may not be more than 36 bytes"},
	}
	for _, required := range []string{"service", "name", "region", "user"} {
		all = append(all, schemaCase{at: at + ".aws." + required, kind: "required", accepted: aws(), rejected: aws(required + "="), message: "Required value"})
	}
	for _, field := range []string{"user", "operatorUser"} {
		all = append(all,
			schemaCase{at: at + ".aws." + field, kind: kindRule, accepted: aws(field + "=weir_limiter-1.a"), rejected: aws(field + "=weir limiter"), message: user},
			schemaCase{
				at: at + ".aws." + field, kind: "maxLength", accepted: aws(field + "=" + letters(128)), rejected: aws(field + "=" + letters(129)),
				message: "may not be more than 128 bytes",
			})
	}
	for _, ref := range []string{"credentialsSecretRef", "operatorCredentialsSecretRef"} {
		all = append(all, schemaCase{
			at: "spec.redis", kind: kindRule, field: at, accepted: auth(`{google: {}}`), rejected: redis(`{tls: {}, auth: {google: {}}, ` + ref + `: {name: a}}`),
			message: "auth is invalid together with credentialsSecretRef or operatorCredentialsSecretRef, because a token is the password; remove one of them",
		})
	}
	for _, sentinels := range []string{`masterName: m`, `mode: Sentinel, masterName: m`} {
		all = append(all, schemaCase{
			at: "spec.redis", kind: kindRule, field: at, accepted: redis(`{tls: {}, auth: {google: {}}, mode: Cluster}`),
			rejected: redis(`{tls: {}, auth: {google: {}}, ` + sentinels + `}`),
			message:  "auth is invalid with Sentinels: the services that accept tokens do not have them; use the address of the cache, without masterName",
		})
	}
	return all
}
