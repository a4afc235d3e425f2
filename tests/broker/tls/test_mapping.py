"""Rules from subjects to users; the cases are those of Kafka's SslPrincipalMapperTest and more."""

import pytest

from odradek.broker.tls.mapping import BadRules, MappingRules, NoRuleFits

KAFKA_S = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    r"DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "subject", "user"),
    [
        (KAFKA_S, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (KAFKA_S, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (KAFKA_S, "cn=duke,ou=sme,o=mycp,l=Fulton,st=MD,c=US", "DUKE"),
        (KAFKA_S, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        ("DEFAULT", "CN=a", "CN=a"),
        ("RULE:^CN=(.*)$/$1/", "CN=A", "A"),
        ("RULE:CN=x/no/,RULE:CN=a/yes/,RULE:CN=a/late/", "CN=a", "yes"),
        (r"RULE:^CN=(.*),O=a\/b$/$1\/x/", "CN=a,O=a/b", "a/x"),
        ("RULE:^CN=((.)(.))$/$3$2$1/", "CN=ab", "baab"),
        ("RULE:^CN=(.)(x)?$/[$2]/", "CN=a", "[]"),
        ("RULE:^CN=(.)$/$12/", "CN=a", "a2"),
        ("RULE:^CN=(.)$/$2/", "CN=a", "$2"),
        (r"RULE:^CN=(.)$/\$1/", "CN=a", "$1"),
        ("RULE:.*/x/", "CN=a", "xx"),  # as Java's replaceAll: the empty end matches again
    ],
)
def test_the_first_rule_that_fits_decides(rules: str, subject: str, user: str) -> None:
    assert MappingRules(rules).user(subject) == user


@pytest.mark.parametrize("rules", ["RULE:^CN=a/x/", ""])
def test_without_a_rule_that_fits_there_is_no_user(rules: str) -> None:
    with pytest.raises(NoRuleFits):
        MappingRules(rules).user("CN=ab")


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("default", "DEFAULT or a whole RULE:"),
        ("DEFAULT/L", "DEFAULT or a whole RULE:"),
        ("RULE:CN=a/b", "DEFAULT or a whole RULE:"),
        ("RULE:CN=a", "DEFAULT or a whole RULE:"),
        ("RULE:CN=a/b/X", "DEFAULT or a whole RULE:"),
        ("RULE:CN=a/b/LU", "DEFAULT or a whole RULE:"),
        ("RULE:(/x/", "not one of RE2"),
        (r"RULE:(?=a).*/x/", "not one of RE2"),
        ("RULE:a/$x/", "a number must follow"),
        ("RULE:a/x$/", "a number must follow"),
    ],
)
def test_rules_that_are_refused(rules: str, words: str) -> None:
    with pytest.raises(BadRules, match=words):
        MappingRules(rules)


def test_a_hostile_subject_takes_no_time() -> None:
    """A backtracking engine would need years for this."""
    rules = MappingRules("RULE:^CN=(a+)+b$/$1/,DEFAULT")
    subject = "CN=" + "a" * 5000
    assert rules.user(subject) == subject
